// Opens libraries in the ways that programs do: opener HOW PATH, HOW = plugin, plugin-apart (in a
// namespace of its own), plugin-again (closed and opened again), driver, driver-apart.
#include <dlfcn.h>

#include <cstdio>
#include <cstring>

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  const char* how = argv[1];
  void* library = std::strstr(how, "-apart") != nullptr ? dlmopen(LM_ID_NEWLM, argv[2], RTLD_NOW)
                                                        : dlopen(argv[2], RTLD_NOW);
  if (library == nullptr) {
    std::printf("%s\n", dlerror());
    return 3;
  }
  if (std::strncmp(how, "driver", 6) == 0) {
    // Only the foreign driver of these tests has this name.
    std::printf("%s\n", dlsym(library, "foreign_driver") != nullptr ? "foreign" : "ours");
    auto* initialise = reinterpret_cast<int (*)(unsigned)>(dlsym(library, "cuInit"));
    return initialise != nullptr ? initialise(0) : 4;
  }
  if (std::strcmp(how, "plugin-again") == 0) {
    auto* first = reinterpret_cast<int (*)()>(dlsym(library, "plugin_run"));
    if (first == nullptr || first() != 0 || dlclose(library) != 0) return 6;
    if (dlopen(argv[2], RTLD_NOW | RTLD_NOLOAD) != nullptr) return 7;  // it must be gone
    library = dlopen(argv[2], RTLD_NOW);
    if (library == nullptr) return 8;
  }
  auto* run = reinterpret_cast<int (*)()>(dlsym(library, "plugin_run"));
  if (run == nullptr) return 5;
  const int status = run();
  std::printf("plugin %d\n", status);
  return status;
}
