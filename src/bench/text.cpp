// Laying out measurements.
#include "bench/text.h"

#include <fmt/format.h>

#include <algorithm>

#include "bench/floor.h"

namespace weft {
namespace {

constexpr double kSmall = 5;  // microseconds: below it, what an empty kernel takes is worth knowing

std::string microseconds(const Result& r, Time time, Cache cache) {
    const auto& timing = r.at(time, cache);
    return timing ? fmt::format("{:.2f}", timing->us.median) : "-";
}

std::string verdict(const Timing& weft, const Timing& other) {
    if (overlap(weft.us, other.us)) return "level";
    return weft.us.median < other.us.median ? "weft wins" : "weft loses";
}

// "1.31x (1.28-1.33) weft wins": how many times faster weft is.
std::string comparison(const Result* weft, const Result& r) {
    if (weft == nullptr || &r == weft || !r.computes) return "";
    const auto &ours = weft->at(Time::device, Cache::cold), &theirs = r.at(Time::device, Cache::cold);
    if (!ours || !theirs) return "";
    const Ratio ratio = ratio_of(theirs->samples, ours->samples);
    return fmt::format("{:.2f}x ({:.2f}-{:.2f}) {}", ratio.ratio, ratio.low, ratio.high,
                       verdict(*ours, *theirs));
}

std::string line_of(const Measurement& m, const Result& r, const DeviceInfo& device) {
    std::string text = fmt::format("  {:<9}{:<44}", name(r.side), r.name);
    if (!r.checked) return text + (r.why.starts_with(kFailed) ? "" : "wrong: ") + r.why + "\n";
    const auto& cold = r.at(Time::device, Cache::cold);
    const bool floor = m.floor_us > 0 && cold && r.name != "card launch";
    text += fmt::format(" {:>9} {:>9} {:>9} {:>6} {:>12}  {}", microseconds(r, Time::device, Cache::cold),
                        microseconds(r, Time::device, Cache::hot), microseconds(r, Time::eager, Cache::hot),
                        floor ? fmt::format("{:.0f} %", 100 * m.floor_us / cold->us.median) : "-",
                        floor ? rate_text(m.work, device, cold->us.median) : "", comparison(m.weft(), r));
    text.erase(text.find_last_not_of(' ') + 1);
    if (r.rounds_between) text += " (rounds in between)";
    if (cold && cold->dropped > 0) text += fmt::format(" ({} samples dropped: throttled)", cold->dropped);
    return text + "\n";
}

}  // namespace

std::string measurement_text(const std::string& title, const Measurement& m, const DeviceInfo& device) {
    std::string text = title + "\n";
    if (m.floor_us > 0) text += "  " + floor_text(m.work, device) + "\n";
    if (!m.checked_on.empty()) text += "  compared with the reference: " + m.checked_on + "\n";
    text += fmt::format("  {:<53} {:>9} {:>9} {:>9} {:>6}\n", "", "cold us", "hot us", "eager us", "floor");
    const bool small = m.floor_us > 0 && m.floor_us < kSmall;
    for (const Result& r : m.results) {
        if (r.name != "card launch" || small) text += line_of(m, r, device);
    }
    return text;
}

void Summary::add(const std::string& title, const Measurement& m) {
    ++cases_;
    const Result* weft = m.weft();
    if (weft != nullptr && !weft->checked) ++wrong_;
    const Result* rival = m.best(Time::device, Cache::cold);
    if (weft != nullptr && weft->at(Time::device, Cache::cold) && m.floor_us > 0)
        floors_.push_back(
            {title, "the floor", m.floor_us / weft->at(Time::device, Cache::cold)->us.median, false});
    if (weft == nullptr || rival == nullptr || !weft->at(Time::device, Cache::cold)) return;
    const Timing &ours = *weft->at(Time::device, Cache::cold),
                 &theirs = *rival->at(Time::device, Cache::cold);
    entries_.push_back({title, rival->name, theirs.us.median / ours.us.median, overlap(ours.us, theirs.us)});
}

std::string Summary::text() const {
    std::string text = fmt::format("{} cases, {} of weft's results wrong", cases_, wrong_);
    if (entries_.empty()) return text + "; no baseline to compare with\n";
    std::vector<double> ratios;
    int wins = 0, losses = 0;
    const Entry* worst = &entries_.front();
    for (const Entry& e : entries_) {
        ratios.push_back(e.ratio);
        if (!e.level) ++(e.ratio > 1 ? wins : losses);
        if (e.ratio < worst->ratio) worst = &e;
    }
    return text + fmt::format(
                      "; against the best baseline of each of {} (device, cold): geometric mean {:.2f}x, "
                      "worst {:.2f}x ({}, against {}); {} won, {} lost, {} level\n",
                      entries_.size(), geometric_mean(ratios), worst->ratio, worst->title, worst->rival, wins,
                      losses, entries_.size() - static_cast<std::size_t>(wins + losses));
}

std::string Summary::distribution(bool of_floor) const {
    std::vector<Entry> sorted = of_floor ? floors_ : entries_;
    if (sorted.empty()) return "";
    std::sort(sorted.begin(), sorted.end(), [](const Entry& a, const Entry& b) { return a.ratio < b.ratio; });
    std::vector<double> ratios;
    for (const Entry& e : sorted) ratios.push_back(e.ratio);
    const auto slow = std::count_if(ratios.begin(), ratios.end(), [](double r) { return r < 0.9; });
    std::string text = fmt::format(
        "against {} ({} cases): geometric mean {:.2f}, 10th percentile {:.2f}, {:.0f} % under 0.9; worst\n",
        of_floor ? "the floor" : "the best baseline", sorted.size(), geometric_mean(ratios),
        quantile(ratios, 0.1), 100.0 * static_cast<double>(slow) / static_cast<double>(sorted.size()));
    sorted.resize(std::min<std::size_t>(sorted.size(), 10));
    for (const Entry& e : sorted) text += fmt::format("  {:.2f}  {}  ({})\n", e.ratio, e.title, e.rival);
    return text;
}

}  // namespace weft
