#include "client/agent_link.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/check.h"
#include "core/log.h"
#include "core/status_macros.h"

namespace kvtier {
namespace {

// Bounds of the wait between two tries to connect: an absent agent costs at most one failed
// connect(2) a second.
constexpr absl::Duration kMinReconnect = absl::Milliseconds(20);
constexpr absl::Duration kMaxReconnect = absl::Seconds(1);
// Timeout of one Release or RegisterSpace of the background thread.
constexpr absl::Duration kChoreTimeout = absl::Milliseconds(500);
// Wait before such a call is tried again, when it failed and the breaker is still closed.
constexpr absl::Duration kChoreRetry = absl::Milliseconds(100);

// Returns whether `status` came from the agent: an error that the agent gave is an answer, too.
bool IsAnswer(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kUnavailable:
    case absl::StatusCode::kDeadlineExceeded:
    case absl::StatusCode::kInternal:
    case absl::StatusCode::kUnknown:
      return false;
    default:
      return true;
  }
}

// Returns whether `status` says that the channel is broken: the agent itself answers neither code.
bool IsGarbled(const absl::Status& status) {
  return status.code() == absl::StatusCode::kInternal ||
         status.code() == absl::StatusCode::kUnknown;
}

// Openings of the breaker without an answered call between them after which the connection is made
// again: the connection itself may be at fault, and the new one is the probe. With the default
// backoff this takes 3 s.
constexpr int kOpeningsToRebuild = 5;

}  // namespace

AgentLink::AgentLink(LinkOptions options)
    : options_(std::move(options)),
      wake_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      spaces_(options_.session.tenant_key),
      reconnect_(kMinReconnect, kMaxReconnect),
      random_(std::random_device{}()),
      breaker_(options_.breaker) {
  KVT_CHECK(wake_.is_open());
}

AgentLink::~AgentLink() { KVT_CHECK(!thread_.joinable()); }

void AgentLink::Start() {
  if (InForkedChild()) {
    Log(LogLevel::kWarning, absl::StrCat("kvtier: serving misses: ", kForkedText));
    return;
  }
  thread_ = std::thread([this] { Run(); });
  static_cast<void>(pthread_setname_np(thread_.native_handle(), "kvtier-link"));
  absl::MutexLock lock(&mu_);
  mu_.AwaitWithTimeout(absl::Condition(&tried_), options_.connect_timeout);
}

void AgentLink::Stop() {
  {
    absl::MutexLock lock(&mu_);
    stopping_ = true;
  }
  Wake();
  if (thread_.joinable()) thread_.join();
  absl::MutexLock lock(&mu_);
  if (connection_ != nullptr) connection_->session()->End();
  connection_.reset();
}

std::shared_ptr<Connection> AgentLink::Admit(absl::Duration timeout) {
  if (InForkedChild()) return nullptr;
  absl::MutexLock lock(&mu_);
  if (connection_ == nullptr || !breaker_.Admits(timeout)) {
    ++stats_.calls_skipped;
    return nullptr;
  }
  ++stats_.calls;
  return connection_;
}

CallOutcome AgentLink::Ended(const std::shared_ptr<Connection>& connection, const CallEnd& end) {
  const absl::Status& status = end.status;
  // The client itself cancelled the call, because it is being closed.
  if (status.code() == absl::StatusCode::kCancelled) return CallOutcome::kUnreachable;
  bool wake = false;
  {
    absl::MutexLock lock(&mu_);
    const bool current = connection == connection_;
    if (status.ok()) {
      if (current) breaker_.CallAnswered(clock_.Now());
      answered_ = true;
      latencies_[end.name].Record(end.took);
      return CallOutcome::kAnswered;
    }
    const std::string text = absl::StrCat(end.name, ": ", status.ToString());
    NoteError(text);
    if (IsAnswer(status)) {
      ++stats_.calls_refused;
      if (current) breaker_.CallAnswered(clock_.Now());
    } else {
      ++stats_.calls_failed;
      if (current) wake = JudgeFailure(end, text);
    }
  }
  // The agent does not know this session, though the session's socket is open: open a new one.
  if (status.code() == absl::StatusCode::kFailedPrecondition) {
    connection->session()->End();
    wake = true;
  }
  if (wake) Wake();
  return status.code() == absl::StatusCode::kDeadlineExceeded ? CallOutcome::kLate
                                                              : CallOutcome::kUnreachable;
}

bool AgentLink::JudgeFailure(const CallEnd& end, const std::string& text) {
  const absl::Time now = clock_.Now();
  const bool is_short =
      end.timeout < kMinJudgedTimeout && end.status.code() == absl::StatusCode::kDeadlineExceeded;
  if (is_short) return breaker_.ShortCallFailed(now - end.timeout, now, Jitter());
  if (!breaker_.CallFailed(now, Jitter())) return false;
  garbled_ = IsGarbled(end.status);
  NoteOpened(text);
  return true;
}

void AgentLink::NoteOpened(const std::string& text) {
  ++stats_.breaker_opened;
  Log(LogLevel::kWarning,
      absl::StrCat("kvtier: the agent does not answer, serving misses; its last error: ", text));
}

void AgentLink::Release(Connection* connection, ReleaseQueue::Kind kind,
                        std::span<const uint64_t> ids) {
  if (ids.empty() || InForkedChild()) return;
  const ReleaseQueue::Added added = connection->releases().Add(kind, ids, clock_.Now());
  if (added.dropped > 0) {
    Count([&](ClientStats* stats) { stats->releases_dropped += added.dropped; });
  }
  // Otherwise the thread wakes in time by itself, and then takes until nothing is left.
  if (added.sooner) Wake();
}

void AgentLink::RemoveSpace(size_t number) {
  spaces_.Remove(number);
  std::shared_ptr<Connection> connection;
  {
    absl::MutexLock lock(&mu_);
    connection = connection_;
  }
  if (connection != nullptr && connection->ForgetSpace(number, clock_.Now())) Wake();
}

SpaceLimits AgentLink::LimitsOf(size_t space) const {
  if (InForkedChild()) return {.why_not = std::string(kForkedText)};
  const bool is_connected = connected();
  absl::MutexLock lock(&mu_);
  if (!is_connected || connection_ == nullptr) {
    return {.why_not = absl::StrCat("no agent; ", stats_.last_error)};
  }
  const auto known = connection_->FindSpace(space);
  if (!known.has_value()) return {.why_not = "the agent does not know it yet"};
  return known->limits;
}

void AgentLink::ReleaseTicket(const TicketId& ticket) {
  if (InForkedChild()) return;
  std::shared_ptr<Connection> connection;
  {
    absl::MutexLock lock(&mu_);
    connection = connection_;
  }
  // Where no agent is connected, the ticket has ended with its agent's session.
  if (connection != nullptr && connection->releases().AddTicket(ticket, clock_.Now()).sooner) {
    Wake();
  }
}

void AgentLink::Wake() {
  const uint64_t one = 1;
  // EAGAIN: the counter is at its limit, so the thread is awake anyway.
  const ssize_t ignored = write(wake_.get(), &one, sizeof(one));
  static_cast<void>(ignored);
}

bool AgentLink::connected() const {
  if (InForkedChild()) return false;
  std::shared_ptr<Connection> connection;
  {
    absl::MutexLock lock(&mu_);
    connection = connection_;
  }
  return connection != nullptr && !connection->session()->HasEnded();
}

AgentLink::Residency AgentLink::residency() const {
  if (InForkedChild()) return {};
  absl::MutexLock lock(&mu_);
  if (connection_ == nullptr) return {};
  return {.connected = true, .view = connection_->session()->residency()};
}

void AgentLink::RenewResidency() {
  if (!residency_asked_.exchange(true, std::memory_order_relaxed)) Wake();
}

std::shared_ptr<const GpuMemory> AgentLink::gpu_memory() const {
  if (InForkedChild()) return nullptr;
  absl::MutexLock lock(&mu_);
  return connection_ == nullptr ? nullptr : connection_->session()->gpu();
}

HostMemory AgentLink::host_memory() const {
  if (InForkedChild()) return {};
  absl::MutexLock lock(&mu_);
  if (connection_ == nullptr) return {};
  const Session& session = *connection_->session();
  return {.read = session.arena_read(),
          .write = session.write_memory(),
          .is_staged = session.is_staged(),
          .moves = session.arena_moves()};
}

ClientStats AgentLink::Stats() const {
  if (InForkedChild()) return {.last_error = std::string(kForkedText)};
  const bool is_connected = connected();
  absl::MutexLock lock(&mu_);
  ClientStats stats = stats_;
  stats.connected = is_connected;
  stats.breaker = BreakerStateName(breaker_.state());
  for (const auto& [name, latency] : latencies_) {
    stats.latencies[name] = {
        .calls = latency.count(), .p50 = latency.Quantile(0.5), .p99 = latency.Quantile(0.99)};
  }
  return stats;
}

void AgentLink::Run() {
  for (;;) {
    std::shared_ptr<Connection> connection;
    {
      absl::MutexLock lock(&mu_);
      if (stopping_) return;
      connection = connection_;
    }
    if (connection == nullptr) {
      if (clock_.Now() >= next_try_) {
        Connect();
        continue;
      }
      Sleep(nullptr, next_try_);
      continue;
    }
    if (connection->session()->HasEnded()) {
      Drop(connection, absl::UnavailableError("the agent hung up"));
      continue;
    }
    absl::Time until = Serve(connection);
    until = std::min(until, LookAtPool(*connection->session()));
    until = std::min(until, LookAtResidency(*connection->session()));
    {
      absl::MutexLock lock(&mu_);
      until = std::min(until, breaker_.probe_time());
    }
    Sleep(connection, until);
  }
}

absl::StatusOr<std::shared_ptr<Connection>> AgentLink::OpenConnection() {
  const absl::Time deadline = clock_.Now() + options_.connect_timeout;
  KVT_ASSIGN_OR_RETURN(std::shared_ptr<const Session> session,
                       Session::Open(options_.session, deadline));
  if (session->group_key().has_value()) spaces_.NameFor(*session->group_key());
  std::shared_ptr<Connection> connection(
      new Connection(options_.session.socket_dir, std::move(session)), DeleteUnlessForked());
  KVT_RETURN_IF_ERROR(connection->Ping(deadline - clock_.Now()));
  KVT_RETURN_IF_ERROR(RegisterMissing(connection.get(), deadline - clock_.Now()));
  return connection;
}

void AgentLink::Connect() {
  absl::StatusOr<std::shared_ptr<Connection>> connection = OpenConnection();
  absl::MutexLock lock(&mu_);
  tried_ = true;
  // The wait stays long for an agent that accepts sessions and answers no calls.
  if (std::exchange(answered_, false)) reconnect_.Reset();
  next_try_ = clock_.Now() + reconnect_.Next(Jitter());
  if (!connection.ok()) {
    NoteError(absl::StrCat("connect: ", connection.status().ToString()));
    // One line for each reason, not one for each try.
    if (logged_ != connection.status().message()) {
      logged_ = std::string(connection.status().message());
      Log(LogLevel::kWarning, absl::StrCat("kvtier: the agent cannot be reached, serving misses: ",
                                           connection.status().ToString()));
    }
    return;
  }
  connection_ = *std::move(connection);
  garbled_ = false;
  if (std::exchange(rebuilding_, false)) {
    breaker_.ProbeAnswered(clock_.Now());
  } else {
    breaker_ = CircuitBreaker(options_.breaker);
  }
  ++stats_.sessions;
  logged_.clear();
  Log(LogLevel::kInfo,
      absl::StrCat("kvtier: connected to the agent at ", options_.session.socket_dir,
                   connection_->session()->GroupText()));
}

absl::Time AgentLink::Serve(const std::shared_ptr<Connection>& connection) {
  if (!Probe(connection)) return absl::InfiniteFuture();
  {
    absl::MutexLock lock(&mu_);
    if (!breaker_.Admits(kChoreTimeout)) return absl::InfiniteFuture();  // The next probe wakes us.
  }
  // Unregistered spaces are forgotten first, to make room for those that are to be registered.
  connection->ForgetRemoved(spaces_, clock_.Now());
  absl::Status chore = connection->FlushReleases(kChoreTimeout, clock_.Now());
  if (chore.ok()) chore = RegisterMissing(connection.get(), kChoreTimeout);
  if (chore.ok()) return connection->releases().NextLook(clock_.Now());
  Ended(connection, {.name = "background", .timeout = kChoreTimeout, .status = chore});
  return clock_.Now() + kChoreRetry;
}

bool AgentLink::Probe(const std::shared_ptr<Connection>& connection) {
  {
    absl::MutexLock lock(&mu_);
    if (!breaker_.TakeProbe(clock_.Now())) return true;
    rebuilding_ = garbled_ || breaker_.openings() >= kOpeningsToRebuild;
  }
  if (rebuilding_) {
    Drop(connection,
         absl::UnavailableError("the connection to the agent does not work, so another is made"));
    return false;
  }
  const absl::Status answer = connection->Ping(options_.breaker.probe_timeout);
  absl::MutexLock lock(&mu_);
  if (IsAnswer(answer)) {
    breaker_.ProbeAnswered(clock_.Now());
    return true;
  }
  garbled_ = IsGarbled(answer);
  if (breaker_.ProbeFailed(clock_.Now(), Jitter())) {
    NoteOpened(absl::StrCat("probe: ", answer.ToString()));
  }
  return true;
}

absl::Time AgentLink::LookAtPool(const Session& session) {
  if (!session.pool_changes()) return absl::InfiniteFuture();
  if (clock_.Now() < next_look_) return next_look_;
  const absl::Status looked =
      Answers() ? session.LookAtPool(clock_.Now() + kChoreTimeout) : absl::OkStatus();
  next_look_ = clock_.Now() + kPoolLookInterval;
  if (!looked.ok()) {
    absl::MutexLock lock(&mu_);
    NoteError(absl::StrCat("cannot map the GPU pool: ", looked.ToString()));
  }
  return next_look_;
}

absl::Time AgentLink::LookAtResidency(const Session& session) {
  // Before the look: a request from now on may be about a change that the look does not see.
  residency_asked_.store(false, std::memory_order_relaxed);
  const std::shared_ptr<const ResidencyView> view = session.residency();
  if (view == nullptr || !view->retired()) return absl::InfiniteFuture();
  residency_asked_.store(true, std::memory_order_relaxed);  // Nobody has to ask again.
  if (clock_.Now() < next_renewal_) return next_renewal_;
  next_renewal_ = clock_.Now() + kChoreRetry;
  if (!Answers()) return next_renewal_;
  const absl::Status renewed = session.RenewResidency(clock_.Now() + kChoreTimeout);
  if (renewed.ok()) {
    residency_asked_.store(false, std::memory_order_relaxed);
    next_renewal_ = absl::InfinitePast();
    return absl::InfiniteFuture();
  }
  absl::MutexLock lock(&mu_);
  NoteError(absl::StrCat("cannot map the residency table: ", renewed.ToString()));
  return next_renewal_;
}

bool AgentLink::Answers() const {
  absl::MutexLock lock(&mu_);
  return breaker_.Admits(kChoreTimeout);
}

absl::Status AgentLink::RegisterMissing(Connection* connection, absl::Duration timeout) {
  const absl::Time deadline = clock_.Now() + timeout;
  for (const auto& [i, spec] : spaces_.All()) {
    if (connection->FindSpace(i)) continue;
    const absl::Status status = connection->RegisterSpace(i, spec, deadline - clock_.Now());
    if (status.ok()) continue;
    if (!IsAnswer(status) || status.code() == absl::StatusCode::kFailedPrecondition) return status;
    // The agent refuses this space: its blocks stay misses, and the other spaces work.
    connection->RefuseSpace(i, status);
    absl::MutexLock lock(&mu_);
    NoteError(absl::StrCat("register_space: ", status.ToString()));
  }
  return absl::OkStatus();
}

void AgentLink::Drop(const std::shared_ptr<Connection>& connection, const absl::Status& why) {
  connection->session()->End();
  absl::MutexLock lock(&mu_);
  if (connection_ == connection) connection_.reset();
  NoteError(why.ToString());
  Log(LogLevel::kWarning, absl::StrCat("kvtier: ", why.message(), "; serving misses"));
}

void AgentLink::Sleep(const std::shared_ptr<Connection>& connection, absl::Time until) {
  pollfd fds[2] = {{.fd = wake_.get(), .events = POLLIN, .revents = 0},
                   {.fd = -1, .events = POLLRDHUP, .revents = 0}};
  if (connection != nullptr) fds[1].fd = connection->session()->fd();
  const absl::Duration left =
      std::clamp(until - clock_.Now(), absl::ZeroDuration(), absl::Hours(1));
  const timespec wait = absl::ToTimespec(left);
  // After an error or a signal the loop goes round once more, which is all that it costs.
  static_cast<void>(ppoll(fds, 2, &wait, nullptr));
  uint64_t count = 0;
  const ssize_t ignored = read(wake_.get(), &count, sizeof(count));
  static_cast<void>(ignored);
}

void AgentLink::NoteError(const std::string& text) { stats_.last_error = text; }

double AgentLink::Jitter() { return std::uniform_real_distribution<double>(0.0, 1.0)(random_); }

}  // namespace kvtier
