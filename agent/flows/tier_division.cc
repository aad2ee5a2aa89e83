#include "agent/flows/tier_division.h"

#include <algorithm>
#include <map>

#include "agent/disk/node_disks.h"
#include "agent/tenants.h"
#include "core/check.h"
#include "core/tenant_settings.h"

namespace kvtier {

uint64_t TierDivision::CapacityOf(Tier tier) const {
  const DiskSet* const disks = parts_.rooms.disks->set();
  switch (tier) {
    case Tier::kGpu:
      return parts_.gpus->bytes();
    case Tier::kHost:
      return host_bytes_;
    case Tier::kDisk:
      break;
  }
  return disks == nullptr ? 0 : disks->divided_bytes();
}

void TierDivision::Apply(const TenantBook& book) {
  std::vector<TenantSettings> settings;
  for (const Tenant* const tenant : parts_.rooms.tenants->All()) {
    settings.push_back(book.Of(tenant->name).settings);
  }
  for (const Tier tier : {Tier::kHost, Tier::kDisk}) {
    shares_[TierIndex(tier)] = SharesOf(tier, CapacityOf(tier), settings);
  }
  DivideHost();
  DivideDisks();
  DivideGpus(book);
  WeighTurns();
}

void TierDivision::WeighTurns() {
  const std::vector<const Tenant*> tenants = parts_.rooms.tenants->All();
  for (size_t i = 0; i < tenants.size(); ++i) {
    const DomainId domain = tenants[i]->domain;
    parts_.rooms.turns->SetWeight(domain, Of(Tier::kHost, i).weight);
    const uint32_t of_disk = Of(Tier::kDisk, i).weight;
    if (parts_.flows->disk_loader != nullptr) parts_.flows->disk_loader->SetWeight(domain, of_disk);
    if (parts_.flows->offloader != nullptr) parts_.flows->offloader->SetWeight(domain, of_disk);
  }
}

void TierDivision::DivideHost() {
  std::map<DomainId, TierShare> slabs;
  const std::vector<const Tenant*> tenants = parts_.rooms.tenants->All();
  for (size_t i = 0; i < tenants.size(); ++i) {
    TierShare share = Of(Tier::kHost, i);
    share.guaranteed /= slab_bytes_;
    if (share.maximum != UINT64_MAX) share.maximum /= slab_bytes_;
    slabs[tenants[i]->domain] = share;
  }
  parts_.host->Resize(host_bytes_ / slab_bytes_, slabs);
}

void TierDivision::DivideDisks() {
  if (parts_.rooms.disks->set() == nullptr) return;
  const std::vector<const Tenant*> tenants = parts_.rooms.tenants->All();
  std::vector<OwnerShare> owners;
  owners.reserve(tenants.size());
  for (size_t i = 0; i < tenants.size(); ++i) {
    owners.push_back({.owner = TenantTagOf(tenants[i]->name), .share = Of(Tier::kDisk, i)});
  }
  // Shares that do not fit were refused, or cut, before they came here.
  KVT_CHECK(parts_.rooms.disks->set()->SetShares(owners).ok());
}

void TierDivision::DivideGpus(const TenantBook& book) {
  const std::vector<DomainId>& with_pools = parts_.rooms.gpus->tenants();
  std::vector<TenantSettings> settings;
  for (const DomainId domain : with_pools) {
    settings.push_back(book.Of(parts_.rooms.tenants->OfDomain(domain).name).settings);
  }
  const std::vector<TierShare> shares = SharesOf(Tier::kGpu, CapacityOf(Tier::kGpu), settings);
  std::map<DomainId, TierShare> by_domain;
  for (size_t i = 0; i < with_pools.size(); ++i) by_domain[with_pools[i]] = shares[i];
  std::vector<TierShare>& of_all = shares_[TierIndex(Tier::kGpu)];
  of_all.clear();
  for (const Tenant* const tenant : parts_.rooms.tenants->All()) {
    const auto found = by_domain.find(tenant->domain);
    of_all.push_back(found == by_domain.end() ? TierShare{.maximum = 0} : found->second);
  }
  parts_.gpus->Divide(by_domain);
}

}  // namespace kvtier
