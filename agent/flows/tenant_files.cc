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
#include "core/status_macros.h"
#include "core/summed_bytes.h"
#include "tier_disk/io/durable_file.h"
#include "tier_disk/io/summed_file.h"

namespace kvtier {
namespace {

constexpr size_t kMaxSecretFileBytes = size_t{64} << 10;
constexpr SummedFileForm kForm = {.name = kTenantSettingsFileName,
                                  .holds = "tenants' settings",
                                  .magic = 0x73746e616e65746b,  // The bytes "ktenants".
                                  .version = kTenantSettingsForm,
                                  .max_bytes = size_t{4} << 20,
                                  .min_version = kMinTenantSettingsForm};

// Returns what the file holds, without the newline that editors add.
absl::StatusOr<std::string> ReadSecretFile(const std::filesystem::path& path) {
  const auto refused = [&](absl::string_view why) {
    return absl::InvalidArgumentError(absl::StrCat("tenant file ", path.string(), " ", why));
  };
  std::error_code error;
  const std::filesystem::file_status file = std::filesystem::status(path, error);
  if (!std::filesystem::is_regular_file(file)) {
    return refused(error ? absl::StrCat("cannot be read: ", error.message()) : "is no plain file");
  }
  const auto bytes = ReadFileStart(path, kMaxSecretFileBytes + 1);
  if (!bytes.ok()) return refused(absl::StrCat("cannot be read: ", bytes.status().message()));
  if (!bytes->has_value()) return refused("was removed while it was read");
  if ((*bytes)->size() > kMaxSecretFileBytes) {
    return refused(
        absl::StrCat("has more than ", kMaxSecretFileBytes, " bytes, so it is no secret"));
  }
  std::string secret(reinterpret_cast<const char*>((*bytes)->data()), (*bytes)->size());
  if (absl::EndsWith(secret, "\n")) secret.pop_back();
  if (secret.empty()) return refused("holds no secret; write one into it");
  return secret;
}

}  // namespace

absl::StatusOr<std::vector<TenantSecret>> ReadTenantSecrets(const std::string& directory) {
  std::vector<TenantSecret> secrets;
  std::error_code error;
  for (std::filesystem::directory_iterator file(directory, error), end; !error && file != end;
       file.increment(error)) {
    const std::string name = file->path().filename();
    // Mounted secrets carry bookkeeping entries such as "..data"; one that is being written has
    // such a name, too.
    if (absl::StartsWith(name, ".") || file->is_directory(error)) continue;
    secrets.push_back({.name = name, .secret = ReadSecretFile(file->path())});
  }
  if (error) return absl::InvalidArgumentError(error.message());
  std::ranges::sort(secrets, {}, &TenantSecret::name);
  return secrets;
}

absl::StatusOr<KeptTenantSettings> TenantFiles::Read() const {
  KVT_ASSIGN_OR_RETURN(const std::string bytes, ReadSummedFile(directories_.settings, kForm));
  if (bytes.empty()) return KeptTenantSettings();
  KVT_ASSIGN_OR_RETURN(OpenedSummedFile file, OpenSummedFile(directories_.settings, kForm, bytes));
  SummedReader& in = file.in;
  const auto version = in.Take<uint64_t>();
  std::optional<TenantSettingsMap> node = TakeTenantSettings(file.version, &in);
  std::optional<TenantSettingsMap> cluster = TakeTenantSettings(file.version, &in);
  if (!version.has_value() || !node.has_value() || !cluster.has_value() || !in.at_end()) {
    return absl::DataLossError(absl::StrCat(directories_.settings, "/", kForm.name,
                                            " is damaged: its parts do not fit together"));
  }
  return KeptTenantSettings{
      .node = *std::move(node), .cluster_version = *version, .cluster = *std::move(cluster)};
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
    out.Put(settings.cluster_version);
    PutTenantSettings(settings.node, &out);
    PutTenantSettings(settings.cluster, &out);
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
  ByteThreads::Work read = [this, &secrets] { secrets = ReadTenantSecrets(directories_.secrets); };
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
  KVT_RETURN_IF_ERROR(ReplaceFile(directories_.secrets, hidden, std::as_bytes(std::span(secret))));
  const std::string made = absl::StrCat(directories_.secrets, "/", hidden);
  const std::string path = absl::StrCat(directories_.secrets, "/", name);
  if (std::rename(made.c_str(), path.c_str()) != 0) return FileError("cannot write", path, errno);
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
