// Linking of PTX: the inputs become one PTX text, which stands where a GPU's driver would give a
// cubin; every load function takes it.
#include "common/log.h"
#include "softgpu/api/image.h"
#include "softgpu/api/jit_logs.h"
#include "softgpu/api/state.h"
#include "softgpu/exec/program.h"

#include <fstream>
#include <sstream>

namespace sluice::softgpu {

struct Link {
  JitLogs logs;
  int arch = 0;
  std::vector<std::string> inputs;
  std::string result;  ///< until the link is destroyed the program may read it
};

namespace {

/// cuLinkCreate's objects; the handle type is opaque and CUDA's own.
Registry<CUlinkState, Link>& links() {
  static auto* instance = new Registry<CUlinkState, Link>;
  return *instance;
}

CUresult find_link(CUlinkState handle, std::shared_ptr<Link>* out) {
  SOFTGPU_CHECK(initialised());
  *out = links().find(handle);
  return *out != nullptr ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

/// Takes the module directives out of the text: a module has them once, at its beginning.
std::string without_header(const std::string& ptx, std::string* version, std::string* target) {
  std::istringstream lines(ptx);
  std::string line, out;
  while (std::getline(lines, line)) {
    std::istringstream words(line);
    std::string first;
    words >> first;
    if (first == ".version" && *version < line) *version = line;
    if (first == ".target" && target->empty()) *target = line;
    if (first == ".version" || first == ".target" || first == ".address_size") line.clear();
    out += line + '\n';
  }
  return out;
}

std::string merged(const std::vector<std::string>& inputs) {
  if (inputs.size() == 1) return inputs.front();
  std::string version, target, bodies;
  for (const std::string& ptx : inputs) bodies += without_header(ptx, &version, &target);
  return version + '\n' + target + "\n.address_size 64\n" + bodies;
}

CUresult refuse(const Link& link, const std::string& name, const LoadError& error) {
  link.logs.fail("softgpu: " + name + ": " + error.log + "\n");
  SLUICE_LOG_INFO("softgpu", "link: {}: {}", name, error.log);
  return error.failure == LoadFailure::kUnsupportedVersion ? CUDA_ERROR_UNSUPPORTED_PTX_VERSION
                                                           : CUDA_ERROR_INVALID_PTX;
}

CUresult add_input(CUlinkState handle, CUjitInputType type, const void* data, std::size_t bytes,
                   const char* name) {
  std::shared_ptr<Link> link;
  SOFTGPU_CHECK(find_link(handle, &link));
  if (data == nullptr || bytes == 0 || !link->result.empty()) return CUDA_ERROR_INVALID_VALUE;
  if (type == CU_JIT_INPUT_OBJECT || type == CU_JIT_INPUT_LIBRARY || type == CU_JIT_INPUT_NVVM) {
    SLUICE_LOG_WARN("softgpu", "linking takes PTX and fatbins with PTX, not input of kind {}",
                    static_cast<int>(type));
    return CUDA_ERROR_NOT_SUPPORTED;
  }
  if (static_cast<int>(type) < 0 || type >= CU_JIT_NUM_INPUT_TYPES) return CUDA_ERROR_INVALID_VALUE;
  std::string ptx;
  SOFTGPU_CHECK(ptx_of_image(data, link->arch, &ptx, bytes));
  // What it lacks another input may have.
  if (const auto alone = Program::load(ptx);
      !alone && alone.error().failure != LoadFailure::kUnresolvedSymbol)
    return refuse(*link, name != nullptr ? name : "input", alone.error());
  link->inputs.push_back(std::move(ptx));
  return CUDA_SUCCESS;
}

}  // namespace
}  // namespace sluice::softgpu

using namespace sluice::softgpu;

SOFTGPU_API cuLinkCreate_v2(unsigned int count, CUjit_option* options, void** values,
                            CUlinkState* out) {
  if (out == nullptr || (count > 0 && (options == nullptr || values == nullptr)))
    return CUDA_ERROR_INVALID_VALUE;
  std::shared_ptr<Context> context;
  SOFTGPU_CHECK(current(&context));
  auto link = std::make_shared<Link>();
  link->logs = JitLogs(count, options, values);
  bool is_known = false;
  link->arch =
      device_attribute(*context->device, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, &is_known) *
          10 +
      device_attribute(*context->device, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, &is_known);
  *out = links().add(std::move(link));
  return CUDA_SUCCESS;
}

SOFTGPU_API cuLinkAddData_v2(CUlinkState handle, CUjitInputType type, void* data, size_t bytes,
                             const char* name, unsigned int, CUjit_option*, void**) {
  return add_input(handle, type, data, bytes, name);
}

SOFTGPU_API cuLinkAddFile_v2(CUlinkState handle, CUjitInputType type, const char* path,
                             unsigned int, CUjit_option*, void**) {
  if (path == nullptr) return CUDA_ERROR_INVALID_VALUE;
  std::ifstream file(path, std::ios::binary);
  if (!file) return CUDA_ERROR_FILE_NOT_FOUND;
  std::stringstream text;
  text << file.rdbuf();
  const std::string bytes = text.str();
  return add_input(handle, type, bytes.data(), bytes.size(), path);
}

SOFTGPU_API cuLinkComplete(CUlinkState handle, void** image, size_t* bytes) {
  if (image == nullptr) return CUDA_ERROR_INVALID_VALUE;
  std::shared_ptr<Link> link;
  SOFTGPU_CHECK(find_link(handle, &link));
  if (link->inputs.empty()) return CUDA_ERROR_INVALID_VALUE;
  const std::string all = merged(link->inputs);
  if (const auto program = Program::load(all); !program)
    return refuse(*link, "the linked whole", program.error());
  link->result = all;
  *image = link->result.data();
  if (bytes != nullptr) *bytes = link->result.size() + 1;  // with the zero that ends a text
  return CUDA_SUCCESS;
}

SOFTGPU_API cuLinkDestroy(CUlinkState handle) {
  SOFTGPU_CHECK(initialised());
  return links().remove(handle) != nullptr ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}
