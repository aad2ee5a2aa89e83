#include "agent/flows/tenant_files.h"

#include <errno.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <filesystem>
#include <optional>
#include <span>
#include <system_error>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "core/status_macros.h"
#include "core/summed_bytes.h"
#include "tier_disk/io/durable_file.h"
#include "tier_disk/io/summed_file.h"

namespace kvtier {
namespace {

constexpr SummedFileForm kForm = {.name = kTenantSettingsFileName,
                                  .holds = "tenants' settings",
                                  .magic = 0x73746e616e65746b,  // The bytes "ktenants".
                                  .version = kTenantSettingsForm,
                                  .max_bytes = size_t{4} << 20,
                                  .min_version = kMinTenantSettingsForm};

// Both return nullopt where the parts contradict themselves.
std::optional<KeptTenantSettings> Take(SummedReader* in) {
  std::optional<TenantSettingsMap> node = TakeTenantSettings(kTenantSettingsForm, in);
  std::optional<ClusterTenants> cluster = TakeClusterTenants(in);
  if (!node.has_value() || !cluster.has_value()) return std::nullopt;
  return KeptTenantSettings{.node = *std::move(node), .cluster = *std::move(cluster)};
}

// Takes what a build wrote that knew no stores: cluster_version:8 | the node's | the cluster's.
std::optional<KeptTenantSettings> TakeWithoutStore(uint32_t form, SummedReader* in) {
  const auto version = in->Take<uint64_t>();
  std::optional<TenantSettingsMap> node = TakeTenantSettings(form, in);
  std::optional<TenantSettingsMap> cluster = TakeTenantSettings(form, in);
  if (!version.has_value() || !node.has_value() || !cluster.has_value()) return std::nullopt;
  return KeptTenantSettings{.node = *std::move(node),
                            .cluster = {.version = *version, .settings = *std::move(cluster)}};
}

}  // namespace

TenantSecret SecretLooks::Read(const std::string& path, const std::string& name,
                               std::map<std::string, Seen>* now) {
  const absl::string_view end = EndOfOtherFile(name);
  if (!end.empty()) {
    return {.name = name,
            .secret = absl::FailedPreconditionError(
                absl::StrCat(path, " is skipped: a name that ends in '", end,
                             "' is no tenant's; move the file elsewhere"))};
  }
  absl::StatusOr<SecretFile> file = ReadSecretFileNow(path);
  if (!file.ok()) return {.name = name, .secret = file.status()};
  const auto before = seen_.find(path);
  Seen seen{.version = file->version, .first = std::chrono::steady_clock::now()};
  if (before != seen_.end() && before->second.version == seen.version) seen = before->second;
  now->emplace(path, seen);
  if (std::chrono::steady_clock::now() - seen.first <
      absl::ToChronoNanoseconds(kSecretSettleTime)) {
    return {.name = name,
            .secret = absl::UnavailableError(
                absl::StrCat("secret file ", path,
                             " is new or was written, and may not be whole; it is taken "
                             "when the next look finds it unchanged"))};
  }
  return {.name = name, .secret = std::move(file->secret)};
}

absl::StatusOr<std::vector<TenantSecret>> SecretLooks::Look(const std::string& directory) {
  std::vector<TenantSecret> secrets;
  std::map<std::string, Seen> now;
  std::error_code error;
  for (std::filesystem::directory_iterator file(directory, error), end; !error && file != end;
       file.increment(error)) {
    const std::string name = file->path().filename();
    // Mounted secrets carry bookkeeping entries such as "..data"; one that is being written has
    // such a name, too.
    if (absl::StartsWith(name, ".") || file->is_directory(error)) continue;
    secrets.push_back(Read(file->path(), name, &now));
  }
  if (error) return absl::InvalidArgumentError(error.message());
  seen_ = std::move(now);
  std::ranges::sort(secrets, {}, &TenantSecret::name);
  return secrets;
}

void SecretLooks::Trust(const std::string& path) {
  const absl::StatusOr<SecretFile> file = ReadSecretFileNow(path);
  if (file.ok()) seen_[path] = {.version = file->version, .first = Moment()};
}

absl::StatusOr<std::vector<TenantSecret>> ReadTenantSecrets(const std::string& directory) {
  SecretLooks looks;
  const auto is_unsettled = [](const TenantSecret& tenant) {
    return absl::IsUnavailable(tenant.secret.status());
  };
  for (absl::Duration waited;; waited += kSecretSettleTime) {
    KVT_ASSIGN_OR_RETURN(std::vector<TenantSecret> secrets, looks.Look(directory));
    if (waited >= kMaxSecretWait || std::ranges::none_of(secrets, is_unsettled)) return secrets;
    absl::SleepFor(kSecretSettleTime);
  }
}

absl::StatusOr<KeptTenantSettings> TenantFiles::Read() const {
  KVT_ASSIGN_OR_RETURN(const std::string bytes, ReadSummedFile(directories_.settings, kForm));
  if (bytes.empty()) return KeptTenantSettings();
  KVT_ASSIGN_OR_RETURN(OpenedSummedFile file, OpenSummedFile(directories_.settings, kForm, bytes));
  std::optional<KeptTenantSettings> kept = file.version < kStoreTenantSettingsForm
                                               ? TakeWithoutStore(file.version, &file.in)
                                               : Take(&file.in);
  if (!kept.has_value() || !file.in.at_end()) {
    return absl::DataLossError(absl::StrCat(directories_.settings, "/", kForm.name,
                                            " is damaged: its parts do not fit together"));
  }
  return *std::move(kept);
}

Task<absl::StatusOr<KeptTenantSettings>> TenantFiles::LoadSettings() {
  absl::StatusOr<KeptTenantSettings> loaded;
  ByteThreads::Work read = [this, &loaded] {
    loaded = Read();
    if (!absl::IsDataLoss(loaded.status()) && !absl::IsFailedPrecondition(loaded.status())) return;
    const std::string path = absl::StrCat(directories_.settings, "/", kForm.name);
    const std::string aside = path + ".set_aside";
    if (std::rename(path.c_str(), aside.c_str()) != 0) {
      loaded = FileError("cannot rename the damaged", path, errno);
      return;
    }
    loaded =
        absl::Status(loaded.status().code(),
                     absl::StrCat(loaded.status().message(), "; the file was renamed to ", aside));
  };
  co_await byte_threads_->Run(std::move(read));
  co_return loaded;
}

Task<absl::Status> TenantFiles::SaveSettings(KeptTenantSettings settings) {
  absl::Status saved;
  ByteThreads::Work write = [this, &settings, &saved] {
    SummedWriter out = BeginSummedFile(kForm);
    PutTenantSettings(settings.node, &out);
    PutClusterTenants(settings.cluster, &out);
    saved = ReplaceSummedFile(directories_.settings, kForm, std::move(out));
  };
  co_await byte_threads_->Run(std::move(write));
  co_return saved;
}

absl::Status TenantFiles::CheckConfigured() const {
  if (!directories_.secrets.empty()) return absl::OkStatus();
  return absl::FailedPreconditionError(
      "this node serves one tenant without a secret; start the agent with --tenants_dir to have "
      "others");
}

absl::Status TenantFiles::NotWritable(const absl::Status& why, const std::string& name) const {
  // A directory that is mounted read-only is changed at its source.
  if (access(directories_.secrets.c_str(), W_OK) == 0) return why;
  return absl::FailedPreconditionError(
      absl::StrCat("--tenants_dir=", directories_.secrets, " is not writable here: ", why.message(),
                   "; change '", name,
                   "' where it is mounted from (the Kubernetes Secret), and "
                   "the agent will see it"));
}

Task<absl::StatusOr<std::vector<TenantSecret>>> TenantFiles::ReadSecrets() {
  KVT_CO_RETURN_IF_ERROR(CheckConfigured());
  absl::StatusOr<std::vector<TenantSecret>> secrets;
  ByteThreads::Work read = [this, &secrets] { secrets = looks_.Look(directories_.secrets); };
  co_await byte_threads_->Run(std::move(read));
  if (!secrets.ok()) {
    co_return absl::InvalidArgumentError(
        absl::StrCat("--tenants_dir=", directories_.secrets, ": ", secrets.status().message()));
  }
  co_return secrets;
}

Task<absl::Status> TenantFiles::WriteSecret(std::string name, std::string secret) {
  KVT_CO_RETURN_IF_ERROR(CheckConfigured());
  absl::Status written;
  ByteThreads::Work write = [&] {
    written = Write(name, secret);
    if (!written.ok()) written = NotWritable(written, name);
  };
  co_await byte_threads_->Run(std::move(write));
  co_return written;
}

absl::Status TenantFiles::Write(const std::string& name, const std::string& secret) const {
  // The file is written under a name that nothing reads until the file is whole.
  const std::string hidden = "." + name;
  const std::string content = ContentOf(secret);
  KVT_RETURN_IF_ERROR(ReplaceFile(directories_.secrets, hidden, std::as_bytes(std::span(content))));
  const std::string made = absl::StrCat(directories_.secrets, "/", hidden);
  const std::string path = absl::StrCat(directories_.secrets, "/", name);
  if (std::rename(made.c_str(), path.c_str()) != 0) return FileError("cannot write", path, errno);
  looks_.Trust(path);
  return SyncDirectory(directories_.secrets);
}

absl::Status TenantFiles::Remove(const std::string& name) const {
  const std::string path = absl::StrCat(directories_.secrets, "/", name);
  if (unlink(path.c_str()) != 0) {
    if (errno == ENOENT) return absl::OkStatus();
    return NotWritable(FileError("cannot remove", path, errno), name);
  }
  return SyncDirectory(directories_.secrets);
}

Task<absl::Status> TenantFiles::RemoveSecret(std::string name) {
  KVT_CO_RETURN_IF_ERROR(CheckConfigured());
  absl::Status removed;
  ByteThreads::Work remove = [&] { removed = Remove(name); };
  co_await byte_threads_->Run(std::move(remove));
  co_return removed;
}

}  // namespace kvtier
