#include "coordinator/settings_store.h"

#include <array>
#include <cstdint>
#include <optional>
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
#include "rocksdb/write_batch.h"

namespace kvtier {
namespace {

// Prefix of the keys "setting/<name>"; other kinds of rows use other prefixes.
constexpr absl::string_view kKeyPrefix = "setting/";
// Key of the settings of all tenants: form:4 cluster_version:8 | PutTenantSettings() | sum.
constexpr absl::string_view kTenantsKey = "tenants";
// Key of the names that came from nodes: form:4 cluster_version:8 count:4 (length:1 name)* | sum.
// The row belongs to settings of that version; a program that does not know it leaves it behind.
constexpr absl::string_view kAdoptedKey = "adopted_tenants";
constexpr uint32_t kAdoptedForm = 1;
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

std::string PackAdopted(const SettingsStore::Tenants& tenants) {
  SummedWriter out;
  out.Put(kAdoptedForm);
  out.Put(tenants.all.version);
  out.Put(static_cast<uint32_t>(tenants.adopted.size()));
  for (const std::string& name : tenants.adopted) {
    out.Put(static_cast<uint8_t>(name.size()));
    out.PutBytes(name);
  }
  return std::move(out).End();
}

// Returns the names that came from nodes; none of a row of another form or of another version of
// the settings, which a program wrote that does not know the row.
absl::StatusOr<std::set<std::string>> LoadAdopted(rocksdb::DB& db, uint64_t version) {
  std::set<std::string> names;
  KVT_ASSIGN_OR_RETURN(const std::string bytes, ReadRow(db, kAdoptedKey));
  if (bytes.empty()) return names;
  const absl::Status damaged = absl::DataLossError(
      "the stored names of tenants whose settings came from nodes are damaged; remove --data_dir "
      "to start without them");
  std::optional<SummedReader> in = SummedReader::Open(bytes);
  if (!in.has_value()) return damaged;
  if (in->Take<uint32_t>() != kAdoptedForm || in->Take<uint64_t>() != version) return names;
  const auto count = in->Take<uint32_t>();
  for (uint32_t i = 0; i < count.value_or(0); ++i) {
    const auto length = in->Take<uint8_t>();
    const auto name = in->TakeBytes(length.value_or(0));
    if (!length.has_value() || !name.has_value()) return damaged;
    names.emplace(*name);
  }
  if (!count.has_value() || !in->at_end()) return damaged;
  return names;
}

// Returns the stored settings of tenants; their version is 0 if there are none.
absl::StatusOr<ClusterTenants> LoadTenants(rocksdb::DB& db) {
  KVT_ASSIGN_OR_RETURN(const std::string bytes, ReadRow(db, kTenantsKey));
  if (bytes.empty()) return ClusterTenants();
  std::optional<SummedReader> in = SummedReader::Open(bytes);
  if (!in.has_value()) {
    return absl::DataLossError(
        "the stored settings of tenants are damaged; remove --data_dir to start without them");
  }
  const auto form = in->Take<uint32_t>();
  if (!form.has_value() || *form < kMinTenantSettingsForm || *form > kTenantSettingsForm) {
    return absl::DataLossError(absl::StrCat("the stored settings of tenants have version ",
                                            form.value_or(0), ", this program reads up to version ",
                                            kTenantSettingsForm));
  }
  const auto version = in->Take<uint64_t>();
  std::optional<TenantSettingsMap> settings = TakeTenantSettings(*form, &*in);
  if (!version.has_value() || !settings.has_value() || !in->at_end()) {
    return absl::DataLossError(
        "the stored settings of tenants are damaged: their parts do not fit together; remove "
        "--data_dir to start without them");
  }
  return ClusterTenants{.version = *version, .settings = *std::move(settings)};
}

// Returns a node's settings with those that were changed here on top. Errors: CheckMayKeep()'s.
absl::StatusOr<SettingsStore::Tenants> Merged(const SettingsStore::Tenants& own,
                                              const ClusterTenants& told) {
  SettingsStore::Tenants merged{.all = told};
  for (const auto& [name, one] : told.settings) merged.adopted.insert(name);
  std::string last;  // Name of a tenant whose settings are the coordinator's own.
  for (const auto& [name, one] : own.all.settings) {
    if (own.adopted.contains(name)) continue;
    merged.all.settings.insert_or_assign(name, one);
    merged.adopted.erase(name);
    last = name;
  }
  KVT_RETURN_IF_ERROR(CheckMayKeep(merged.all.settings, last));
  if (merged.all.settings != told.settings) ++merged.all.version;
  return merged;
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
  Tenants tenants;
  KVT_ASSIGN_OR_RETURN(tenants.all, LoadTenants(*db));
  KVT_ASSIGN_OR_RETURN(tenants.adopted, LoadAdopted(*db, tenants.all.version));
  return std::unique_ptr<SettingsStore>(
      new SettingsStore(std::move(db), settings, std::move(tenants)));
}

SettingsStore::SettingsStore(std::unique_ptr<rocksdb::DB> db, const CoordinatorSettings& settings,
                             Tenants tenants)
    : db_(std::move(db)), settings_(settings), tenants_(std::move(tenants)) {}

SettingsStore::~SettingsStore() = default;

absl::Status SettingsStore::Set(const std::string& name, const std::string& value) {
  CoordinatorSettings changed;
  {
    absl::MutexLock lock(&mu_);
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
  const absl::Status written = FromRocks(db_->Put(synced, absl::StrCat(kKeyPrefix, name), value),
                                         absl::StrCat("writing setting ", name));
  absl::MutexLock lock(&mu_);
  writing_ = false;
  if (written.ok()) settings_ = changed;
  return written;
}

absl::StatusOr<SettingsStore::Tenants> SettingsStore::BeginTenants() {
  absl::MutexLock lock(&mu_);
  if (writing_) {
    return absl::AbortedError(
        "the tenants' settings are not changed, because another setting is being written; try "
        "again");
  }
  writing_ = true;
  return tenants_;
}

absl::StatusOr<ClusterTenants> SettingsStore::StoreTenants(absl::StatusOr<Tenants> tenants) {
  absl::Status written = tenants.status();
  if (written.ok()) {
    SummedWriter out;
    out.Put(kTenantSettingsForm);
    out.Put(tenants->all.version);
    PutTenantSettings(tenants->all.settings, &out);
    rocksdb::WriteBatch rows;
    rocksdb::WriteOptions synced;
    synced.sync = true;
    rocksdb::Status put = rows.Put(SliceOf(kTenantsKey), std::move(out).End());
    if (put.ok()) put = rows.Put(SliceOf(kAdoptedKey), PackAdopted(*tenants));
    if (put.ok()) put = db_->Write(synced, &rows);
    written = FromRocks(put, "writing tenants' settings");
  }
  absl::MutexLock lock(&mu_);
  writing_ = false;
  if (!written.ok()) return written;
  tenants_ = *tenants;
  return std::move(tenants->all);
}

absl::StatusOr<ClusterTenants> SettingsStore::ChangeTenant(const TenantChange& change,
                                                           uint64_t version) {
  KVT_ASSIGN_OR_RETURN(Tenants tenants, BeginTenants());
  TenantSettingsMap& settings = tenants.all.settings;
  const auto before = settings.find(change.name);
  absl::StatusOr<TenantSettings> changed =
      change.In(before == settings.end() ? TenantSettings() : before->second);
  if (!changed.ok()) return StoreTenants(changed.status());
  tenants.all.version = version;
  tenants.adopted.erase(change.name);
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

absl::StatusOr<ClusterTenants> SettingsStore::DropTenant(const std::string& name,
                                                         uint64_t version) {
  KVT_ASSIGN_OR_RETURN(Tenants tenants, BeginTenants());
  if (tenants.all.settings.erase(name) == 0) {
    return StoreTenants(absl::NotFoundError(absl::StrCat("tenant: the cluster has no settings of '",
                                                         name.substr(0, kMaxShownBytes), "'")));
  }
  tenants.all.version = version;
  tenants.adopted.erase(name);
  return StoreTenants(std::move(tenants));
}

absl::StatusOr<ClusterTenants> SettingsStore::AdoptTenants(const ClusterTenants& told) {
  KVT_ASSIGN_OR_RETURN(Tenants tenants, BeginTenants());
  if (told.version < tenants.all.version) return StoreTenants(std::move(tenants));
  return StoreTenants(Merged(tenants, told));
}

ClusterTenants SettingsStore::tenants() const {
  absl::MutexLock lock(&mu_);
  return tenants_.all;
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
