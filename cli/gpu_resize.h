// `kvtier gpu resize`: brings the GPU pool of each asked agent, or of one of its GPUs, to another
// size.
#ifndef KVTIER_CLI_GPU_RESIZE_H_
#define KVTIER_CLI_GPU_RESIZE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "cli/answers.h"
#include "cli/arguments.h"
#include "cli/json.h"
#include "cli/outcome.h"
#include "kvtier/v1/admin.pb.h"

namespace kvtier::cli {

using GpuResizeAnswers = std::vector<Answer<v1::ResizeGpuPoolResponse>>;

// kFailed when an agent refused, or says that it cannot. Under way is not a failure.
// REQUIRES: arguments.gpu_bytes is not 0.
Outcome RunGpuResize(const Arguments& arguments);

// `asked`: bytes, as the person gave them.
std::string GpuResizeTable(const GpuResizeAnswers& answers, uint64_t asked);
std::string GpuResizeJson(const GpuResizeAnswers& answers);

// Returns a remark about a pool beside its size; empty: there is none.
std::string GpuSizeText(const v1::GpuPoolSize& size);
void WriteGpuSize(const v1::GpuPoolSize& size, JsonWriter* json);

}  // namespace kvtier::cli

#endif  // KVTIER_CLI_GPU_RESIZE_H_
