#include "tools/table.h"

#include <algorithm>
#include <cctype>

namespace sluice::tool {
namespace {

/// Characters, as far as UTF-8 tells.
std::size_t width(const std::string& text) {
  return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xC0) != 0x80;
  }));
}

bool is_number(const std::string& text) {
  return !text.empty() && std::isdigit(static_cast<unsigned char>(text[0])) != 0;
}

}  // namespace

Table::Table(std::vector<std::string> titles) {
  rows_.push_back(std::move(titles));
}

void Table::add(std::vector<std::string> cells) {
  cells.resize(rows_[0].size());
  rows_.push_back(std::move(cells));
}

std::string Table::text() const {
  std::string out;
  const std::size_t columns = rows_[0].size();
  std::vector<std::size_t> widths(columns);
  std::vector<bool> is_right(columns, rows_.size() > 1);
  for (std::size_t row = 0; row < rows_.size(); ++row)
    for (std::size_t i = 0; i < columns; ++i) {
      widths[i] = std::max(widths[i], width(rows_[row][i]));
      if (row > 0 && !is_number(rows_[row][i])) is_right[i] = false;
    }
  for (const auto& row : rows_) {
    std::string line;
    for (std::size_t i = 0; i < columns; ++i) {
      const std::string space(widths[i] - width(row[i]), ' ');
      line += (i > 0 ? "  " : "") + (is_right[i] ? space + row[i] : row[i] + space);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    out += line + "\n";
  }
  return out;
}

}  // namespace sluice::tool
