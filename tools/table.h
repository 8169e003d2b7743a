// Aligned columns for people; scripts take -o json.
#pragma once

#include <string>
#include <vector>

namespace sluice::tool {

class Table {
 public:
  explicit Table(std::vector<std::string> titles);
  void add(std::vector<std::string> cells);
  /// Columns of numbers (every cell starts with a digit) are aligned to the right.
  [[nodiscard]] std::string text() const;

 private:
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace sluice::tool
