#include "coordinator/settings_store.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <set>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "core/log.h"
#include "core/status_macros.h"
#include "core/summed_bytes.h"
#include "rocksdb/db.h"
#include "rocksdb/options.h"

namespace kvtier {
namespace {

// Prefix of the keys "setting/<name>"; other kinds of rows use other prefixes.
constexpr absl::string_view kKeyPrefix = "setting/";
// Key of the settings of all tenants: form:4 | PutClusterTenants() | sum. Without it settings are
// unknown.
constexpr absl::string_view kTenantsKey = "tenants";
constexpr size_t kMaxShownBytes = 64;  // Maximum bytes of outside text in an error.

// The store has a few keys of a few bytes: small buffers, few files.
constexpr size_t kWriteBufferBytes = size_t{1} << 20;
constexpr int kMaxOpenFiles = 64;
constexpr size_t kMaxInfoLogBytes = size_t{1} << 20;
constexpr size_t kMaxInfoLogs = 2;

constexpr absl::Duration kMinNodeTimeout = absl::Milliseconds(100);
constexpr absl::Duration kMaxNodeTimeout = absl::Hours(1);
constexpr absl::Duration kMaxForgetAfter = absl::Hours(7 * 24);

struct Known {
  absl::string_view name;
  absl::Duration CoordinatorSettings::* field;
};
constexpr std::array<Known, 2> kKnown = {{
    {"node_timeout_ms", &CoordinatorSettings::node_timeout},
    {"forget_after_ms", &CoordinatorSettings::forget_after},
}};

std::string Shown(absl::string_view text) {
  return absl::StrCat("\"", absl::CHexEscape(text.substr(0, kMaxShownBytes)), "\"");
}

absl::Status CheckRange(absl::string_view name, absl::Duration value, absl::Duration lowest,
                        absl::Duration highest) {
  if (value >= lowest && value <= highest) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("setting ", name, " is ", absl::ToInt64Milliseconds(value), "; must be ",
                   absl::ToInt64Milliseconds(lowest), " to ", absl::ToInt64Milliseconds(highest)));
}

// Returns `settings` with one of them changed, not yet validated.
absl::StatusOr<CoordinatorSettings> With(CoordinatorSettings settings, absl::string_view name,
                                         absl::string_view value) {
  for (const Known& known : kKnown) {
    if (known.name != name) continue;
    uint32_t milliseconds = 0;  // 32 bits hold 49 days, more than any limit.
    if (!absl::SimpleAtoi(value, &milliseconds)) {
      return absl::InvalidArgumentError(absl::StrCat("setting ", name, " is ", Shown(value),
                                                     "; must be a whole number of milliseconds"));
    }
    settings.*known.field = absl::Milliseconds(milliseconds);
    return settings;
  }
  std::string names;
  for (const Known& known : kKnown) absl::StrAppend(&names, names.empty() ? "" : ", ", known.name);
  return absl::NotFoundError(
      absl::StrCat("no setting is called ", Shown(name), "; there are ", names));
}

absl::Status FromRocks(const rocksdb::Status& status, absl::string_view what) {
  if (status.ok()) return absl::OkStatus();
  const std::string text = absl::StrCat(what, ": ", status.ToString());
  return status.IsCorruption() ? absl::DataLossError(text) : absl::UnavailableError(text);
}

rocksdb::Options RocksOptions() {
  rocksdb::Options options;
  options.create_if_missing = true;
  options.write_buffer_size = kWriteBufferBytes;
  options.max_open_files = kMaxOpenFiles;
  options.max_log_file_size = kMaxInfoLogBytes;
  options.keep_log_file_num = kMaxInfoLogs;
  return options;
}

// Returns the stored settings over the defaults.
absl::StatusOr<CoordinatorSettings> Load(rocksdb::DB& db, CoordinatorSettings settings) {
  const std::unique_ptr<rocksdb::Iterator> entry(db.NewIterator(rocksdb::ReadOptions()));
  const rocksdb::Slice prefix(kKeyPrefix.data(), kKeyPrefix.size());
  for (entry->Seek(prefix); entry->Valid() && entry->key().starts_with(prefix); entry->Next()) {
    const std::string name = entry->key().ToString().substr(kKeyPrefix.size());
    absl::StatusOr<CoordinatorSettings> changed = With(settings, name, entry->value().ToString());
    if (absl::IsNotFound(changed.status())) {
      // The setting belongs to a newer version, before a roll-back: it is kept for its return.
      Log(LogLevel::kWarning,
          absl::StrCat("a stored setting is ignored: ", changed.status().message()));
      continue;
    }
    if (!changed.ok()) return absl::DataLossError(changed.status().message());
    settings = *changed;
  }
  KVT_RETURN_IF_ERROR(FromRocks(entry->status(), "reading settings"));
  return settings;
}

rocksdb::Slice SliceOf(absl::string_view text) { return {text.data(), text.size()}; }

// Returns the bytes of a row; empty: there is none.
absl::StatusOr<std::string> ReadRow(rocksdb::DB& db, absl::string_view key) {
  std::string bytes;
  const rocksdb::Status read = db.Get(rocksdb::ReadOptions(), SliceOf(key), &bytes);
  if (read.IsNotFound()) return std::string();
  KVT_RETURN_IF_ERROR(FromRocks(read, "reading tenants' settings"));
  return bytes;
}

absl::Status Damaged(absl::string_view how) {
  return absl::DataLossError(
      absl::StrCat("the stored settings of tenants are damaged", how,
                   "; remove --data_dir, start without them, and import what a node exports"));
}

std::string PackTenants(const ClusterTenants& tenants) {
  SummedWriter out;
  out.Put(kTenantSettingsForm);
  PutClusterTenants(tenants, &out);
  return std::move(out).End();
}

// Writes what PackTenants() returned.
absl::Status WriteTenants(rocksdb::DB& db, const std::string& packed) {
  rocksdb::WriteOptions synced;
  synced.sync = true;
  return FromRocks(db.Put(synced, SliceOf(kTenantsKey), packed), "writing tenants' settings");
}

// Takes what a build wrote that knew no stores: cluster_version:8 | PutTenantSettings().
std::optional<ClusterTenants> TakeWithoutStore(uint32_t form, SummedReader* in) {
  const auto version = in->Take<uint64_t>();
  std::optional<TenantSettingsMap> settings = TakeTenantSettings(form, in);
  if (!version.has_value() || !settings.has_value()) return std::nullopt;
  return ClusterTenants{.version = *version, .settings = *std::move(settings)};
}

absl::StatusOr<bool> HasRows(rocksdb::DB& db) {
  const std::unique_ptr<rocksdb::Iterator> entry(db.NewIterator(rocksdb::ReadOptions()));
  entry->SeekToFirst();
  KVT_RETURN_IF_ERROR(FromRocks(entry->status(), "reading settings"));
  return entry->Valid();
}

// Returns the stored settings of tenants; their version is 0 if they are unknown. Settings of a
// build that knew no stores, or that stored only others, get a store.
absl::StatusOr<ClusterTenants> LoadTenants(rocksdb::DB& db) {
  KVT_ASSIGN_OR_RETURN(const std::string bytes, ReadRow(db, kTenantsKey));
  ClusterTenants tenants;
  if (!bytes.empty()) {
    std::optional<SummedReader> in = SummedReader::Open(bytes);
    if (!in.has_value()) return Damaged("");
    const auto form = in->Take<uint32_t>();
    if (!form.has_value() || *form < kMinTenantSettingsForm || *form > kTenantSettingsForm) {
      return absl::DataLossError(
          absl::StrCat("the stored settings of tenants have version ", form.value_or(0),
                       ", this program reads up to version ", kTenantSettingsForm));
    }
    std::optional<ClusterTenants> taken =
        *form < kStoreTenantSettingsForm ? TakeWithoutStore(*form, &*in) : TakeClusterTenants(&*in);
    if (!taken.has_value() || !in->at_end()) return Damaged(": their parts do not fit together");
    tenants = *std::move(taken);
  }
  KVT_ASSIGN_OR_RETURN(const bool known, HasRows(db));
  if (!known || tenants.store != 0) return tenants;
  tenants.store = DrawStoreId();
  tenants.version = std::max<uint64_t>(tenants.version, 1);
  KVT_RETURN_IF_ERROR(WriteTenants(db, PackTenants(tenants)));
  return tenants;
}

std::string ShownStore(const ClusterTenants& tenants) {
  return absl::StrCat("version ", tenants.version, " of store ", StoreIdText(tenants.store));
}

// Returns what is stored after the import. Errors: Import()'s.
absl::StatusOr<ClusterTenants> Imported(const ClusterTenants& own, ClusterTenants tenants,
                                        SettingsStore::Existing existing) {
  if (tenants.store == 0) tenants.store = DrawStoreId();
  if (own.version == 0) return tenants;
  const std::string here = absl::StrCat("this coordinator has ", ShownStore(own));
  if (own.store == tenants.store && own.version > tenants.version) {
    return absl::FailedPreconditionError(
        absl::StrCat("version: ", tenants.version,
                     " is older than what is here, and nodes would not take it; ", here));
  }
  if (existing == SettingsStore::Existing::kStay && own.Stamp() != tenants.Stamp()) {
    return absl::FailedPreconditionError(
        absl::StrCat("settings are known here already, and the import would replace them all; ",
                     here, "; add --yes to confirm"));
  }
  std::set<uint64_t> replaced = own.replaced;
  replaced.insert(own.store);
  replaced.erase(tenants.store);
  for (const uint64_t store : replaced) {
    if (tenants.replaced.contains(store)) continue;
    KVT_RETURN_IF_ERROR(CheckMayReplace(tenants.replaced));
    tenants.replaced.insert(store);
  }
  return tenants;
}

}  // namespace

absl::Status CoordinatorSettings::Validate() const {
  KVT_RETURN_IF_ERROR(
      CheckRange("node_timeout_ms", node_timeout, kMinNodeTimeout, kMaxNodeTimeout));
  return CheckRange("forget_after_ms", forget_after, node_timeout, kMaxForgetAfter);
}

absl::StatusOr<std::unique_ptr<SettingsStore>> SettingsStore::Open(const Options& options) {
  rocksdb::DB* opened = nullptr;
  KVT_RETURN_IF_ERROR(FromRocks(rocksdb::DB::Open(RocksOptions(), options.directory, &opened),
                                absl::StrCat("settings in ", options.directory)));
  std::unique_ptr<rocksdb::DB> db(opened);
  KVT_ASSIGN_OR_RETURN(const CoordinatorSettings settings, Load(*db, options.defaults));
  if (const absl::Status valid = settings.Validate(); !valid.ok()) {
    return absl::DataLossError(
        absl::StrCat("settings in ", options.directory, ": ", valid.message()));
  }
  KVT_ASSIGN_OR_RETURN(ClusterTenants tenants, LoadTenants(*db));
  return std::unique_ptr<SettingsStore>(
      new SettingsStore(options.directory, std::move(db), settings, std::move(tenants)));
}

SettingsStore::SettingsStore(std::string directory, std::unique_ptr<rocksdb::DB> db,
                             const CoordinatorSettings& settings, ClusterTenants tenants)
    : directory_(std::move(directory)),
      db_(std::move(db)),
      settings_(settings),
      tenants_(std::move(tenants)) {}

SettingsStore::~SettingsStore() = default;

SettingsStore::LogOnDisk SettingsStore::FindLog() const {
  std::unique_ptr<rocksdb::LogFile> log;
  if (!db_->GetCurrentWalFile(&log).ok()) return {};
  return {.number = log->LogNumber(), .bytes = log->SizeFileBytes()};
}

absl::Status SettingsStore::CheckStored(const std::string& key, const std::string& value) {
  const LogOnDisk before = log_;
  log_ = FindLog();
  const uint64_t old_bytes = log_.number == before.number ? before.bytes : 0;
  bool in_place = log_.bytes >= old_bytes + value.size();
  std::vector<std::string> names;
  uint64_t manifest_bytes = 0;
  in_place = in_place && db_->GetLiveFiles(names, &manifest_bytes, /*flush_memtable=*/false).ok();
  for (const std::string& name : names) {  // Each begins with a slash.
    const bool is_read = name.find("OPTIONS") == std::string::npos;
    in_place = in_place && (!is_read || db_->GetEnv()->FileExists(directory_ + name).ok());
  }
  if (in_place) return absl::OkStatus();
  return absl::UnavailableError(
      absl::StrCat("settings in ", directory_, ": ", key,
                   " was written, and is not there: the directory or a file of it was moved, "
                   "removed or replaced; restart the coordinator"));
}

absl::Status SettingsStore::Set(const std::string& name, const std::string& value) {
  CoordinatorSettings changed;
  {
    absl::MutexLock lock(&mu_);
    KVT_RETURN_IF_ERROR(CheckKnown());
    if (writing_) {
      return absl::AbortedError(absl::StrCat(
          "setting ", name, " is not changed, because another is being written; try again"));
    }
    absl::StatusOr<CoordinatorSettings> with = With(settings_, name, value);
    if (!with.ok()) return absl::InvalidArgumentError(with.status().message());
    KVT_RETURN_IF_ERROR(with->Validate());
    changed = *with;
    writing_ = true;
  }
  rocksdb::WriteOptions synced;
  synced.sync = true;
  const std::string key = absl::StrCat(kKeyPrefix, name);
  absl::Status written =
      FromRocks(db_->Put(synced, key, value), absl::StrCat("writing setting ", name));
  if (written.ok()) written = CheckStored(key, value);
  absl::MutexLock lock(&mu_);
  writing_ = false;
  if (written.ok()) settings_ = changed;
  return written;
}

absl::Status SettingsStore::CheckKnown() const {
  if (tenants_.version > 0) return absl::OkStatus();
  return absl::FailedPreconditionError(
      "settings are unknown to this coordinator, because its --data_dir was empty: for a new "
      "cluster say `kvtier tenants init`, once; if --data_dir was lost, say `kvtier tenants "
      "import FILE` with a file that `kvtier tenants export` made on a node, which still follows "
      "the settings");
}

absl::StatusOr<ClusterTenants> SettingsStore::BeginTenants() {
  absl::MutexLock lock(&mu_);
  if (writing_) {
    return absl::AbortedError(
        "the tenants' settings are not changed, because another setting is being written; try "
        "again");
  }
  writing_ = true;
  return tenants_;
}

absl::StatusOr<ClusterTenants> SettingsStore::BeginChange() {
  {
    absl::MutexLock lock(&mu_);
    KVT_RETURN_IF_ERROR(CheckKnown());
  }
  return BeginTenants();
}

absl::StatusOr<ClusterTenants> SettingsStore::StoreTenants(absl::StatusOr<ClusterTenants> tenants) {
  absl::Status written = tenants.status();
  if (written.ok()) {
    const std::string packed = PackTenants(*tenants);
    written = WriteTenants(*db_, packed);
    if (written.ok()) written = CheckStored(std::string(kTenantsKey), packed);
  }
  absl::MutexLock lock(&mu_);
  writing_ = false;
  if (!written.ok()) return written;
  tenants_ = *tenants;
  return tenants;
}

absl::StatusOr<ClusterTenants> SettingsStore::ChangeTenant(const TenantChange& change) {
  KVT_ASSIGN_OR_RETURN(ClusterTenants tenants, BeginChange());
  TenantSettingsMap& settings = tenants.settings;
  const auto before = settings.find(change.name);
  absl::StatusOr<TenantSettings> changed =
      change.In(before == settings.end() ? TenantSettings() : before->second);
  if (!changed.ok()) return StoreTenants(changed.status());
  ++tenants.version;
  if (changed->IsDefault()) {
    settings.erase(change.name);
  } else {
    settings.insert_or_assign(change.name, *std::move(changed));
  }
  if (absl::Status kept = CheckMayKeep(settings, change.name); !kept.ok()) {
    return StoreTenants(std::move(kept));
  }
  return StoreTenants(std::move(tenants));
}

absl::StatusOr<ClusterTenants> SettingsStore::DropTenant(const std::string& name) {
  KVT_ASSIGN_OR_RETURN(ClusterTenants tenants, BeginChange());
  if (tenants.settings.erase(name) == 0) {
    return StoreTenants(absl::NotFoundError(absl::StrCat("tenant: the cluster has no settings of '",
                                                         name.substr(0, kMaxShownBytes), "'")));
  }
  ++tenants.version;
  return StoreTenants(std::move(tenants));
}

absl::StatusOr<ClusterTenants> SettingsStore::Init(uint64_t replaced) {
  KVT_ASSIGN_OR_RETURN(ClusterTenants tenants, BeginTenants());
  const bool known = tenants.version > 0;
  if (known && (replaced == 0 || replaced == tenants.store)) {
    return StoreTenants(absl::FailedPreconditionError(
        absl::StrCat("settings are known to this coordinator already: ", ShownStore(tenants),
                     "; nothing has changed")));
  }
  if (!known) tenants = {.store = DrawStoreId(), .version = 1};
  if (replaced == 0 || tenants.replaced.contains(replaced)) return StoreTenants(tenants);
  if (absl::Status may = CheckMayReplace(tenants.replaced); !may.ok()) {
    return StoreTenants(std::move(may));
  }
  tenants.replaced.insert(replaced);
  return StoreTenants(std::move(tenants));
}

absl::StatusOr<ClusterTenants> SettingsStore::Import(ClusterTenants tenants, Existing existing) {
  KVT_ASSIGN_OR_RETURN(const ClusterTenants own, BeginTenants());
  return StoreTenants(Imported(own, std::move(tenants), existing));
}

ClusterTenants SettingsStore::tenants() const {
  absl::MutexLock lock(&mu_);
  return tenants_;
}

CoordinatorSettings SettingsStore::current() const {
  absl::MutexLock lock(&mu_);
  return settings_;
}

std::map<std::string, std::string> SettingsStore::All() const {
  const CoordinatorSettings settings = current();
  std::map<std::string, std::string> all;
  for (const Known& known : kKnown) {
    all.emplace(known.name, absl::StrCat(absl::ToInt64Milliseconds(settings.*known.field)));
  }
  return all;
}

}  // namespace kvtier
