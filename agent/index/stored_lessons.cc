#include "agent/index/stored_lessons.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "agent/limits.h"
#include "core/event.h"
#include "core/log.h"
#include "core/reuse_lessons.h"

namespace kvtier {

void StoredLessons::Add(std::string name, ReuseHazards* hazards) {
  if (hazards != nullptr) orders_.push_back({.name = std::move(name), .hazards = hazards});
}

void StoredLessons::Remove(const std::string& name) {
  std::erase_if(orders_, [&](const Order& order) { return order.name == name; });
}

bool StoredLessons::Keeps(const Order& order) const {
  return std::ranges::any_of(orders_, [&](const Order& kept) {
    return kept.hazards == order.hazards && kept.name == order.name;
  });
}

uint64_t StoredLessons::Conclusions() const {
  uint64_t conclusions = 0;
  for (const Order& order : orders_) conclusions += order.hazards->conclusions();
  return conclusions;
}

Task<void> StoredLessons::Load() {
  if (store_ == nullptr) co_return;
  const absl::StatusOr<LessonsByOrder> loaded = co_await store_->Load();
  if (!loaded.ok()) {
    Log(LogLevel::kWarning,
        absl::StrCat("eviction starts without what it learnt before: ", loaded.status().message()));
    co_return;
  }
  size_t taken = 0;
  absl::Status refused;
  for (const Order& order : orders_) {
    const auto found = loaded->find(order.name);
    if (found == loaded->end()) continue;
    absl::StatusOr<ReuseLessons> lessons = DecodeReuseLessons(found->second);
    if (!lessons.ok()) {
      refused.Update(absl::Status(lessons.status().code(),
                                  absl::StrCat(order.name, ": ", lessons.status().message())));
      continue;
    }
    order.hazards->Take(*std::move(lessons));
    ++taken;
  }
  stored_conclusions_ = Conclusions();
  if (taken > 0) {
    Log(LogLevel::kInfo,
        absl::StrCat("eviction goes on from what ", taken, " of its orders learnt before"));
  }
  if (!refused.ok()) {
    Log(LogLevel::kWarning,
        absl::StrCat("eviction starts without a part of what it learnt before: ",
                     refused.message()));
  }
}

Task<void> StoredLessons::Run() {
  if (store_ == nullptr) co_return;
  for (bool last = false; !last;) {
    Event never(executor_);
    co_await waits_->Until(&never, executor_->Now() + kLessonsInterval);
    last = waits_->ended();
    if (Conclusions() != stored_conclusions_) co_await Save();
  }
}

Task<void> StoredLessons::Save() {
  const uint64_t conclusions = Conclusions();
  LessonsByOrder lessons;
  // This copies the list, as orders may come or go while other work runs.
  const std::vector<Order> orders = orders_;
  for (const Order& order : orders) {
    if (!Keeps(order)) continue;
    if (order.hazards->conclusions() == 0) continue;
    lessons.emplace(order.name, EncodeReuseLessons(order.hazards->lessons()));
    co_await SleepUntil(executor_, executor_->Now());  // Others take their turn.
  }
  const absl::Status saved = co_await store_->Save(std::move(lessons));
  if (saved.ok()) stored_conclusions_ = conclusions;
  NoteSaved(saved);
}

void StoredLessons::NoteSaved(const absl::Status& saved) {
  if (!saved.ok() && !failing_) {
    Log(LogLevel::kWarning,
        absl::StrCat(
            "what eviction learns cannot be written to disk, so a restart would lose it; it is "
            "tried again each minute: ",
            saved.message()));
  }
  if (saved.ok() && failing_) Log(LogLevel::kInfo, "what eviction learns is written to disk again");
  failing_ = !saved.ok();
}

}  // namespace kvtier
