// Early return on a failed absl::Status, for plain functions (KVT_RETURN_IF_ERROR,
// KVT_ASSIGN_OR_RETURN) and for coroutines (the KVT_CO_ forms, which co_return).
#ifndef KVTIER_CORE_STATUS_MACROS_H_
#define KVTIER_CORE_STATUS_MACROS_H_

#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#define KVT_CONCAT_INNER_(a, b) a##b
#define KVT_CONCAT_(a, b) KVT_CONCAT_INNER_(a, b)

#define KVT_RETURN_IF_ERROR(expr)                                                 \
  do {                                                                            \
    if (absl::Status kvt_status_ = (expr); !kvt_status_.ok()) return kvt_status_; \
  } while (false)

#define KVT_CO_RETURN_IF_ERROR(expr)              \
  do {                                            \
    absl::Status kvt_status_ = (expr);            \
    if (!kvt_status_.ok()) co_return kvt_status_; \
  } while (false)

// `lhs` may declare a variable, so it cannot stand in parentheses.
// NOLINTBEGIN(bugprone-macro-parentheses)
#define KVT_ASSIGN_OR_RETURN(lhs, expr) \
  KVT_ASSIGN_OR_RETURN_(KVT_CONCAT_(kvt_or_, __LINE__), lhs, expr)
#define KVT_ASSIGN_OR_RETURN_(tmp, lhs, expr)    \
  auto tmp = (expr);                             \
  if (!tmp.ok()) return std::move(tmp).status(); \
  lhs = *std::move(tmp)

#define KVT_CO_ASSIGN_OR_RETURN(lhs, expr) \
  KVT_CO_ASSIGN_OR_RETURN_(KVT_CONCAT_(kvt_or_, __LINE__), lhs, expr)
#define KVT_CO_ASSIGN_OR_RETURN_(tmp, lhs, expr)    \
  auto tmp = (expr);                                \
  if (!tmp.ok()) co_return std::move(tmp).status(); \
  lhs = *std::move(tmp)
// NOLINTEND(bugprone-macro-parentheses)

#endif  // KVTIER_CORE_STATUS_MACROS_H_
