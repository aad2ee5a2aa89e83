// Progress hears, while a long verb runs, how far it is: one line of text without a line
// feed, each one instead of the line before. Empty: nobody listens.
#ifndef KVTIER_CLI_PROGRESS_H_
#define KVTIER_CLI_PROGRESS_H_

#include <functional>
#include <string>

namespace kvtier::cli {

using Progress = std::function<void(const std::string& line)>;

}  // namespace kvtier::cli

#endif  // KVTIER_CLI_PROGRESS_H_
