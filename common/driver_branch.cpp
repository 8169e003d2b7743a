#include "common/driver_branch.h"

namespace sluice {

std::string driver_version_text(int cuda_version) {
  struct Row {
    int cuda, branch;
  };
  constexpr Row kRows[] = {{13010, 590}, {13000, 580}, {12090, 575}, {12080, 570}, {12060, 560},
                           {12050, 555}, {12040, 550}, {12030, 545}, {12020, 535}, {12010, 530},
                           {12000, 525}, {11080, 520}, {11070, 515}, {11060, 510}, {11050, 495}};
  int branch = 450;
  for (const Row& row : kRows) {
    if (cuda_version < row.cuda) continue;
    branch = row.branch;
    break;
  }
  return std::to_string(branch) + ".00";
}

}  // namespace sluice
