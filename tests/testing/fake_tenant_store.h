// FakeTenantStore keeps tenants in memory, so that an agent of a test finds those of the one before
// it.
#ifndef KVTIER_TESTS_TESTING_FAKE_TENANT_STORE_H_
#define KVTIER_TESTS_TESTING_FAKE_TENANT_STORE_H_

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "agent/flows/tenant_store.h"

namespace kvtier::testing {

class FakeTenantStore final : public TenantStore {
 public:
  Task<absl::StatusOr<KeptTenantSettings>> LoadSettings() override {
    if (!unread.ok()) co_return unread;
    co_return kept;
  }
  Task<absl::Status> SaveSettings(KeptTenantSettings settings) override {
    ++saves;
    if (unsaved.ok()) kept = std::move(settings);
    co_return unsaved;
  }
  Task<absl::StatusOr<std::vector<TenantSecret>>> ReadSecrets() override {
    if (!unlisted.ok()) co_return unlisted;
    std::vector<TenantSecret> all;
    for (const auto& [name, secret] : secrets) all.push_back({.name = name, .secret = secret});
    for (const auto& [name, why] : unread_secrets) all.push_back({.name = name, .secret = why});
    co_return all;
  }
  Task<absl::Status> WriteSecret(std::string name, std::string secret) override {
    if (read_only.ok()) secrets[name] = std::move(secret);
    co_return read_only;
  }
  Task<absl::Status> RemoveSecret(std::string name) override {
    if (read_only.ok() || !secrets.contains(name)) {
      secrets.erase(name);
      co_return absl::OkStatus();
    }
    co_return read_only;
  }

  KeptTenantSettings kept;
  std::map<std::string, std::string> secrets;          // Secrets by tenant.
  std::map<std::string, absl::Status> unread_secrets;  // Why others cannot be read, by name.
  int saves = 0;
  // Results of the calls, if they are errors.
  absl::Status unread;
  absl::Status unsaved;
  absl::Status unlisted;
  absl::Status read_only;
};

}  // namespace kvtier::testing

#endif  // KVTIER_TESTS_TESTING_FAKE_TENANT_STORE_H_
