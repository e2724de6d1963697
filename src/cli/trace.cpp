#include "cli/trace.hpp"

#include <map>

#include <nlohmann/json.hpp>

namespace halfeven::cli {
namespace {

double microseconds(TracingPool::Clock::duration d) { return std::chrono::duration<double, std::micro>(d).count(); }

}  // namespace

void TracingPool::run(int pieces, void (*piece)(void*, int), void* argument) {
  struct Job {
    TracingPool* self;
    void (*piece)(void*, int);
    void* argument;
  } job{this, piece, argument};
  pool_->run(
      pieces,
      [](void* j, int k) {
        const Job& of = *static_cast<Job*>(j);
        const auto start = Clock::now();
        of.piece(of.argument, k);
        const Piece done{std::this_thread::get_id(), start, Clock::now()};
        const std::lock_guard lock(of.self->mutex_);
        of.self->pieces_.push_back(done);
      },
      &job);
}

void TracingPool::restart() {
  pieces_.clear();
  pieces_.reserve(1 << 16);
  origin_ = Clock::now();
}

std::string TracingPool::json(const PlanReport& report, const std::vector<StepTime>& steps) const {
  using Json = nlohmann::ordered_json;
  Json events = Json::array();
  const auto add = [&](const std::string& name, double start, double length, std::size_t line) -> Json& {
    events.push_back({{"name", name}, {"ph", "X"}, {"ts", start}, {"dur", length}, {"pid", 1}, {"tid", line}});
    return events.back();
  };
  const auto name_line = [&](std::size_t line, const std::string& name) {
    events.push_back({{"name", "thread_name"}, {"ph", "M"}, {"pid", 1}, {"tid", line}, {"args", {{"name", name}}}});
  };
  name_line(0, "steps");
  for (const StepTime& t : steps) {
    const PlanStep& s = report.steps[t.step];
    Json& event = add(s.kernel + " " + s.node, t.start * 1e3, t.milliseconds * 1e3, 0);
    event["args"] = {{"step", t.step}, {"operator", s.op_type}, {"kernel", s.kernel}, {"note", s.note}};
  }
  std::map<std::thread::id, std::size_t> lines;
  for (const Piece& p : pieces_) {
    const double start = microseconds(p.start - origin_);
    const auto [at, fresh] = lines.try_emplace(p.thread, lines.size() + 1);
    if (fresh) name_line(at->second, "thread " + std::to_string(at->second));
    std::string name = "piece";
    for (const StepTime& t : steps) {  // the last step that began before
      if (t.start * 1e3 <= start) name = report.steps[t.step].node;
    }
    add(name, start, microseconds(p.end - p.start), at->second);
  }
  return Json{{"traceEvents", events}, {"displayTimeUnit", "ms"}}.dump(-1, ' ', false, Json::error_handler_t::replace) +
         "\n";
}

}  // namespace halfeven::cli
