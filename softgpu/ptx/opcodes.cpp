#include "softgpu/ptx/opcodes.h"

#include <algorithm>
#include <iterator>

namespace sluice::softgpu::ptx {
namespace {

constexpr bool kYes = true;

#define ROUNDING " rn rz rm rp "
#define SCOPES " cta cluster gpu sys "
#define SPACES " global const shared shared::cta local param param::entry param::func "
#define COMPARISONS " eq ne lt le gt ge lo ls hi hs equ neu ltu leu gtu geu num nan and or xor ftz "
#define LEVELS " L1:: L2:: "

// Sorted by name; searched by bisection. Rows with kYes are lowered: fewest and most operands,
// modifiers.
constexpr Opcode kOpcodes[] = {
    {"abs", kYes, 2, 2, " ftz "},
    {"activemask", kYes, 1, 1, ""},
    {"add", kYes, 3, 3, ROUNDING " ftz sat cc "},
    {"addc", kYes, 3, 3, " cc "},
    {"alloca", false, 0, 0, ""},
    {"and", kYes, 3, 3, ""},
    {"applypriority", kYes, 2, 2, " global " LEVELS},
    {"atom", kYes, 3, 4,
     " relaxed acquire release acq_rel and or xor cas exch add inc dec min max noftz v2 v4 "
     "v8 " SCOPES SPACES},
    {"bar", kYes, 1, 4, " warp sync arrive red popc and or cta "},
    {"barrier", kYes, 1, 4, " sync arrive red popc and or cta aligned "},
    {"bfe", kYes, 4, 4, ""},
    {"bfi", kYes, 5, 5, ""},
    {"bfind", kYes, 2, 2, " shiftamt "},
    {"bmsk", kYes, 3, 3, " clamp wrap "},
    {"bra", kYes, 1, 1, " uni "},
    {"brev", kYes, 2, 2, ""},
    {"brkpt", kYes, 0, 0, ""},
    {"brx", kYes, 2, 2, " idx uni "},
    {"call", kYes, 1, 4, " uni "},
    {"clusterlaunchcontrol", false, 0, 0, ""},
    {"clz", kYes, 2, 2, ""},
    {"cnot", kYes, 2, 2, ""},
    {"copysign", kYes, 3, 3, ""},
    {"cos", kYes, 2, 2, " approx ftz "},
    {"cp", kYes, 0, 5,
     " async ca cg shared shared::cta global commit_group wait_group wait_all mbarrier arrive "
     "noinc " LEVELS},
    {"createpolicy", false, 0, 0, ""},
    {"cvt", kYes, 2, 4,
     ROUNDING " rni rzi rmi rpi rna ftz sat satfinite relu pack tf32 e4m3x2 e5m2x2 "},
    {"cvta", kYes, 2, 2, " to " SPACES},
    {"discard", kYes, 2, 2, " global " LEVELS},
    {"div", kYes, 3, 3, ROUNDING " approx full ftz "},
    {"dp2a", kYes, 4, 4, " lo hi "},
    {"dp4a", kYes, 4, 4, ""},
    {"elect", kYes, 2, 2, " sync "},
    {"ex2", kYes, 2, 2, " approx ftz "},
    {"exit", kYes, 0, 0, ""},
    {"fence", kYes, 0, 0, " sc acq_rel acquire release " SCOPES},
    {"fma", kYes, 4, 4, ROUNDING " ftz sat relu "},
    {"fns", kYes, 4, 4, ""},
    {"getctarank", false, 0, 0, ""},
    {"griddepcontrol", kYes, 0, 0, " launch_dependents wait "},
    {"isspacep", kYes, 2, 2, SPACES},
    {"istypep", false, 0, 0, ""},
    {"ld", kYes, 2, 2,
     " weak volatile relaxed acquire mmio v2 v4 v8 nc unified ca cg cs lu cv " SCOPES SPACES
         LEVELS},
    {"ldmatrix", kYes, 2, 2, " sync aligned m8n8 x1 x2 x4 trans shared shared::cta "},
    {"ldu", kYes, 2, 2, " global v2 v4 "},
    {"lg2", kYes, 2, 2, " approx ftz "},
    {"lop3", kYes, 5, 5, ""},
    {"mad", kYes, 4, 4, ROUNDING " lo hi wide ftz sat cc "},
    {"mad24", kYes, 4, 4, " lo hi sat "},
    {"madc", kYes, 4, 4, " lo hi cc "},
    {"mapa", false, 0, 0, ""},
    {"match", kYes, 3, 3, " any all sync "},
    {"max", kYes, 3, 3, " ftz NaN xorsign abs "},
    {"mbarrier", kYes, 1, 4,
     " init inval arrive arrive_drop test_wait try_wait pending_count noComplete parity release "
     "acquire relaxed cta shared shared::cta "},
    {"membar", kYes, 0, 0, " gl " SCOPES},
    {"min", kYes, 3, 3, " ftz NaN xorsign abs "},
    {"mma", kYes, 4, 4,
     " sync aligned row col satfinite tf32 m8n8k4 m8n8k16 m16n8k4 m16n8k8 m16n8k16 m16n8k32 "},
    {"mov", kYes, 2, 2, ""},
    {"movmatrix", false, 0, 0, ""},
    {"mul", kYes, 3, 3, ROUNDING " lo hi wide ftz sat "},
    {"mul24", kYes, 3, 3, " lo hi "},
    {"multimem", false, 0, 0, ""},
    {"nanosleep", kYes, 1, 1, ""},
    {"neg", kYes, 2, 2, " ftz "},
    {"not", kYes, 2, 2, ""},
    {"or", kYes, 3, 3, ""},
    {"pmevent", kYes, 1, 1, " mask "},
    {"popc", kYes, 2, 2, ""},
    {"prefetch", kYes, 1, 1, " L1 L2 " SPACES LEVELS},
    {"prefetchu", kYes, 1, 1, " L1 "},
    {"prmt", kYes, 4, 4, " f4e b4e rc8 ecl ecr rc16 "},
    {"rcp", kYes, 2, 2, ROUNDING " approx ftz "},
    {"red", kYes, 2, 2,
     " relaxed release and or xor add inc dec min max noftz v2 v4 v8 " SCOPES SPACES},
    {"redux", kYes, 3, 3, " sync add min max and or xor "},
    {"rem", kYes, 3, 3, ""},
    {"ret", kYes, 0, 0, " uni "},
    {"rsqrt", kYes, 2, 2, " approx ftz "},
    {"sad", kYes, 4, 4, ""},
    {"selp", kYes, 4, 4, ""},
    {"set", kYes, 3, 4, COMPARISONS},
    {"setmaxnreg", false, 0, 0, ""},
    {"setp", kYes, 3, 4, COMPARISONS},
    {"shf", kYes, 4, 4, " l r wrap clamp "},
    {"shfl", kYes, 4, 5, " sync up down bfly idx "},
    {"shl", kYes, 3, 3, ""},
    {"shr", kYes, 3, 3, ""},
    {"sin", kYes, 2, 2, " approx ftz "},
    {"slct", kYes, 4, 4, " ftz "},
    {"sqrt", kYes, 2, 2, ROUNDING " approx ftz "},
    {"st", kYes, 2, 2,
     " weak volatile relaxed release mmio v2 v4 v8 wb cg cs wt " SCOPES SPACES LEVELS},
    {"stackrestore", false, 0, 0, ""},
    {"stacksave", false, 0, 0, ""},
    {"stmatrix", false, 0, 0, ""},
    {"sub", kYes, 3, 3, ROUNDING " ftz sat cc "},
    {"subc", kYes, 3, 3, " cc "},
    {"suld", false, 0, 0, ""},
    {"suq", false, 0, 0, ""},
    {"sured", false, 0, 0, ""},
    {"sust", false, 0, 0, ""},
    {"szext", kYes, 3, 3, " clamp wrap "},
    {"tanh", kYes, 2, 2, " approx ftz "},
    {"tcgen05", false, 0, 0, ""},
    {"tensormap", false, 0, 0, ""},
    {"testp", kYes, 2, 2, " finite infinite number notanumber normal subnormal "},
    {"tex", false, 0, 0, ""},
    {"tld4", false, 0, 0, ""},
    {"trap", kYes, 0, 0, ""},
    {"txq", false, 0, 0, ""},
    {"vabsdiff", false, 0, 0, ""},
    {"vabsdiff2", kYes, 4, 4, " sat add "},
    {"vabsdiff4", kYes, 4, 4, " sat add "},
    {"vadd", false, 0, 0, ""},
    {"vadd2", kYes, 4, 4, " sat add "},
    {"vadd4", kYes, 4, 4, " sat add "},
    {"vavrg2", kYes, 4, 4, " sat add "},
    {"vavrg4", kYes, 4, 4, " sat add "},
    {"vmad", false, 0, 0, ""},
    {"vmax", false, 0, 0, ""},
    {"vmax2", kYes, 4, 4, " sat add "},
    {"vmax4", kYes, 4, 4, " sat add "},
    {"vmin", false, 0, 0, ""},
    {"vmin2", kYes, 4, 4, " sat add "},
    {"vmin4", kYes, 4, 4, " sat add "},
    {"vote", kYes, 2, 3, " sync all any uni ballot "},
    {"vset", false, 0, 0, ""},
    {"vset2", false, 0, 0, ""},
    {"vset4", false, 0, 0, ""},
    {"vshl", false, 0, 0, ""},
    {"vshr", false, 0, 0, ""},
    {"vsub", false, 0, 0, ""},
    {"vsub2", kYes, 4, 4, " sat add "},
    {"vsub4", kYes, 4, 4, " sat add "},
    {"wgmma", false, 0, 0, ""},
    {"wmma", kYes, 2, 4,
     " sync aligned row col satfinite tf32 load store mma a b c d global shared shared::cta m8n8k4 "
     "m16n16k8 m16n16k16 m32n8k16 m8n32k16 "},
    {"xor", kYes, 3, 3, ""},
};

constexpr bool is_before(const Opcode& a, const Opcode& b) {
  return a.name < b.name;
}
static_assert(std::is_sorted(std::begin(kOpcodes), std::end(kOpcodes), is_before));

}  // namespace

bool Opcode::accepts(std::string_view modifier) const {
  for (std::size_t at = 0; at < modifiers.size();) {
    const std::size_t begin = modifiers.find_first_not_of(' ', at);
    if (begin == std::string_view::npos) return false;
    at = std::min(modifiers.find(' ', begin), modifiers.size());
    const std::string_view known = modifiers.substr(begin, at - begin);
    if (known == modifier || (known.ends_with("::") && modifier.starts_with(known))) return true;
  }
  return false;
}

const Opcode* find_opcode(std::string_view name) {
  const auto* found = std::lower_bound(std::begin(kOpcodes), std::end(kOpcodes),
                                       Opcode{name, false, 0, 0, {}}, is_before);
  return found != std::end(kOpcodes) && found->name == name ? found : nullptr;
}

}  // namespace sluice::softgpu::ptx
