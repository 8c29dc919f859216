#include "datasets/catalog.hpp"
#include "datasets/errors.hpp"
#include "datasets/npy.hpp"
#include "datasets/sha256.hpp"
#include "harness/cli/commands.hpp"
#include "harness/cli/options.hpp"
#include "harness/system/messages.hpp"

#include <fmt/format.h>
#include <memory>
#include <vector>

namespace clusterbench {
namespace {

struct DataArguments {
  std::string name;
  bool list = false;
  bool last_column_is_label = false;
  std::string out;
  std::vector<std::size_t> rows; ///< first and count; empty: all
};

ExitCode list_datasets() {
  for (const datasets::CatalogEntry& entry : datasets::catalog()) {
    fmt::print("{:<38} {}\n", entry.name, entry.description);
  }
  return ExitCode::ok;
}

void check_out(const std::string& out) {
  if (!out.ends_with(".npy")) {
    throw datasets::InputError(
        fmt::format("--out {}: the name must end in .npy, by which it is read", out));
  }
}

void write(const std::string& out, const datasets::Array& array) {
  if (array.type() == datasets::ElementType::f32) {
    datasets::write_npy<float>(out, array.f32(), {array.rows(), array.cols()});
  } else {
    datasets::write_npy<double>(out, array.f64(), {array.rows(), array.cols()});
  }
}

// Some rows of a dataset that no memory need hold as a whole.
ExitCode make_rows(const DataArguments& arguments) {
  if (arguments.out.empty()) {
    throw datasets::InputError("--rows: say with --out where they go");
  }
  check_out(arguments.out);
  const std::size_t first = arguments.rows[0], count = arguments.rows[1];
  if (count == 0) {
    throw datasets::InputError(fmt::format("--rows {} 0: COUNT is 1 at least", first));
  }
  if (count == datasets::RowRange::kToTheLast) { // would be all rows, however many
    throw datasets::InputError(
        fmt::format("--rows {0} {1}: there are no {1} rows from row {0} on", first, count));
  }
  const datasets::Array array = datasets::generate_rows(arguments.name, {first, count});
  write(arguments.out, array);
  tell("name:   {}, rows {} to {}\nfile:   {}\nshape:  {} x {} {}\nsha256: {}\n", arguments.name,
       first, first + count - 1, arguments.out, array.rows(), array.cols(),
       datasets::name_of(array.type()), datasets::sha256_hex(array.bytes()));
  return ExitCode::ok;
}

ExitCode make_dataset(const DataArguments& arguments) {
  const datasets::ReadOptions options{.last_column_is_label = arguments.last_column_is_label};
  const datasets::Resolved resolved = datasets::resolve(arguments.name, options);
  if (!arguments.out.empty()) {
    check_out(arguments.out);
    write(arguments.out, datasets::load(resolved, options));
  }
  tell("name:   {}\nfile:   {}\nshape:  {} x {} {}\nsha256: {}\n", resolved.name,
       arguments.out.empty() ? resolved.file.string() : arguments.out, resolved.rows, resolved.cols,
       datasets::name_of(resolved.type), resolved.sha256);
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
  command
      ->add_option("--rows", arguments->rows,
                   "Of a generated dataset, only COUNT rows from FIRST on (from 0); needs --out")
      ->type_name("FIRST COUNT")
      ->expected(2)
      ->check(whole_number());
  command->callback([&action, arguments, command] {
    action = [arguments, command] {
      check_output_names(*command, {{"--out", "file"}});
      if (arguments->list) {
        return list_datasets();
      }
      if (arguments->name.empty()) {
        throw datasets::InputError("data: name a dataset, or use --list");
      }
      return arguments->rows.empty() ? make_dataset(*arguments) : make_rows(*arguments);
    };
  });
}

} // namespace clusterbench
