#include "datasets/catalog.hpp"
#include "datasets/errors.hpp"
#include "datasets/npy.hpp"
#include "harness/cli/commands.hpp"

#include <fmt/format.h>
#include <memory>

namespace clusterbench {
namespace {

struct DataArguments {
  std::string name;
  bool list = false;
  bool last_column_is_label = false;
  std::string out;
};

ExitCode list_datasets() {
  for (const datasets::CatalogEntry& entry : datasets::catalog()) {
    fmt::print("{:<38} {}\n", entry.name, entry.description);
  }
  return ExitCode::ok;
}

ExitCode make_dataset(const DataArguments& arguments) {
  const datasets::ReadOptions options{.last_column_is_label = arguments.last_column_is_label};
  const datasets::Resolved resolved = datasets::resolve(arguments.name, options);
  if (!arguments.out.empty()) {
    if (!arguments.out.ends_with(".npy")) {
      throw datasets::InputError(
          fmt::format("--out {}: the name must end in .npy, by which it is read", arguments.out));
    }
    const datasets::Array array = datasets::load(resolved, options);
    if (array.type() == datasets::ElementType::f32) {
      datasets::write_npy<float>(arguments.out, array.f32(), {array.rows(), array.cols()});
    } else {
      datasets::write_npy<double>(arguments.out, array.f64(), {array.rows(), array.cols()});
    }
  }
  fmt::print("name:   {}\nfile:   {}\nshape:  {} x {} {}\nsha256: {}\n", resolved.name,
             arguments.out.empty() ? resolved.file.string() : arguments.out, resolved.rows,
             resolved.cols, datasets::name_of(resolved.type), resolved.sha256);
  return ExitCode::ok;
}

} // namespace

void add_data_command(CLI::App& app, Action& action) {
  const auto arguments = std::make_shared<DataArguments>();
  CLI::App* command = app.add_subcommand("data", "Make a dataset; prints its shape and SHA-256");
  command->add_option("name", arguments->name, "Name, pattern or file");
  command->add_flag("--list", arguments->list, "Names and patterns");
  command->add_flag("--last-column-is-label", arguments->last_column_is_label,
                    "The last column of a csv file is no feature");
  command->add_option("--out", arguments->out, "Also write it to FILE, whose name must end in .npy")
      ->type_name("FILE");
  command->callback([&action, arguments] {
    action = [arguments] {
      if (arguments->list) {
        return list_datasets();
      }
      if (arguments->name.empty()) {
        throw datasets::InputError("data: name a dataset, or use --list");
      }
      return make_dataset(*arguments);
    };
  });
}

} // namespace clusterbench
