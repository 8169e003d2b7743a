#include "server/config/share_change.h"

#include "common/format.h"
#include "common/percent.h"
#include "server/config/section.h"

namespace sluice::config {
namespace {

Status read_percent(Section& section, std::string_view key, std::optional<double>* out) {
  std::string text;
  SLUICE_CHECK(section.read(key, &text));
  if (!section.has(key)) return {};
  const auto fraction = parse_percent(text);
  if (!fraction) return section.wrong(*section.get(key), key, fraction.error());
  *out = *fraction;
  return {};
}

}  // namespace

void ShareChange::merge(const ShareChange& later) {
  if (later.guarantee) guarantee = later.guarantee;
  if (later.limit) limit = later.limit;
  if (later.weight) weight = later.weight;
  if (later.cls) cls = later.cls;
}

scheduler::Share ShareChange::applied_to(scheduler::Share share) const {
  share.guarantee = guarantee.value_or(share.guarantee);
  share.limit = limit.value_or(share.limit);
  share.weight = weight.value_or(share.weight);
  share.cls = cls.value_or(share.cls);
  return share;
}

Result<scheduler::Class> parse_class(const std::string& text) {
  if (const auto cls = scheduler::parse_class(text)) return *cls;
  return fail(ErrorCode::kInvalidArgument,
              format("\"{}\" is no class: best-effort, standard, interactive or realtime", text));
}

Result<ShareChange> read_share(Section& section) {
  ShareChange out;
  SLUICE_CHECK(read_percent(section, "compute", &out.guarantee));
  SLUICE_CHECK(read_percent(section, "compute_limit", &out.limit));
  if (const toml::node* weight = section.get("weight"); weight != nullptr) {
    out.weight = weight->value<double>();  // whole numbers, too
    if (!out.weight) return section.wrong(*weight, "weight", "a number, e.g. 2 or 0.5");
  }
  std::string cls;
  SLUICE_CHECK(section.read("class", &cls));
  if (section.has("class")) {
    const auto parsed = parse_class(cls);
    if (!parsed) return section.wrong(*section.get("class"), "class", parsed.error());
    out.cls = *parsed;
  }
  return out;
}

}  // namespace sluice::config
