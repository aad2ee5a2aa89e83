#include "agent/peers/fetch_line.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <utility>

#include "core/check.h"

namespace kvtier {

// Place is a request in the line, from its construction until it began or was destroyed.
class FetchLine::Place {
 public:
  Place(FetchLine* line, Ask ask)
      : line_(line), ask_(std::move(ask)), turn_(line->parts_.executor) {
    KVT_CHECK(ask_.places > 0 && ask_.places <= line_->FreeFor(ask_.payer));
    const auto party = static_cast<size_t>(ask_.payer);
    if (party >= line_->lines_.size()) line_->lines_.resize(party + 1);
    std::list<Place*>& places = line_->lines_[party];
    if (places.empty()) line_->order_.Enter(party);
    at_ = places.insert(places.end(), this);
    for (size_t i = 0; i < ask_.places; ++i) line_->places_.Take(ask_.payer);
    ++line_->waiting_;
  }
  Place(const Place&) = delete;
  Place& operator=(const Place&) = delete;
  ~Place() { Leave(); }

  bool MayBegin() const {
    PeerStandings* const standings = line_->parts_.standings;
    return standings->FreeFor(ask_.payer) > 0 &&
           std::ranges::any_of(ask_.peers, [&](const std::string& peer) {
             return standings->Of(peer, ask_.payer).free_fetches > 0;
           });
  }
  // Begins what can begin; returns whether the wait is over, after which the request is no longer
  // in the line.
  bool Begin() {
    if (!ask_.begin()) return false;
    begun_ = true;
    End();
    return true;
  }
  // Ends the wait, and gives the places back.
  void End() {
    Leave();
    turn_.Set();
  }
  bool IsGone() { return ask_.is_gone != nullptr && ask_.is_gone(); }
  Event* turn() { return &turn_; }
  bool begun() const { return begun_; }

  uint64_t looked_at = 0;  // Number of the last pump that looked at it.

 private:
  void Leave() {
    if (!at_.has_value()) return;
    line_->lines_[static_cast<size_t>(ask_.payer)].erase(*at_);
    at_.reset();
    for (size_t i = 0; i < ask_.places; ++i) line_->places_.GiveBack(ask_.payer);
    --line_->waiting_;
  }

  FetchLine* const line_;
  Ask ask_;
  Event turn_;
  bool begun_ = false;
  std::optional<std::list<Place*>::iterator> at_;  // nullopt: it is not in the line.
};

size_t FetchLine::FreeFor(DomainId payer) const {
  return places_.FreeFor(payer, parts_.tenants->size());
}

Task<bool> FetchLine::Wait(Ask ask, absl::Time deadline) {
  Place place(this, std::move(ask));
  if (!std::exchange(pumps_at_times_, true)) parts_.scope->Spawn(PumpAtTimes());
  co_await parts_.waits->Until(place.turn(), deadline);
  co_return place.begun();
}

Task<void> FetchLine::PumpAtTimes() {
  while (waiting_ > 0) {
    co_await SleepUntil(parts_.executor, parts_.executor->Now() + kFetchLineInterval);
    DropGone();
    Pump();
  }
  pumps_at_times_ = false;
}

void FetchLine::DropGone() {
  std::vector<Place*> gone;
  for (const std::list<Place*>& line : lines_) {
    std::ranges::copy_if(line, std::back_inserter(gone),
                         [](Place* each) { return each->IsGone(); });
  }
  for (Place* const place : gone) place->End();
}

FetchLine::Place* FetchLine::NextOf(size_t party) {
  if (party >= lines_.size()) return nullptr;
  for (Place* const place : lines_[party]) {
    if (place->looked_at == pumps_) continue;
    if (place->MayBegin()) return place;
    place->looked_at = pumps_;
  }
  return nullptr;
}

void FetchLine::Pump() {
  pump_again_ = true;
  if (std::exchange(pumping_, true)) return;  // A fetch that began has ended at once.
  while (std::exchange(pump_again_, false)) {
    ++pumps_;
    const auto may_begin = [this](size_t party) { return NextOf(party) != nullptr; };
    while (const std::optional<size_t> party = order_.Next(may_begin)) {
      Place* const place = NextOf(*party);
      place->looked_at = pumps_;
      if (!place->Begin()) continue;
      order_.Begin(*party);
      order_.Charge(*party, 1);
    }
  }
  pumping_ = false;
}

}  // namespace kvtier
