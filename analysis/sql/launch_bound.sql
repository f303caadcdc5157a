-- Where does the loop wait for the CPU, and how long?
-- $sweep_id TEXT = NULL: one sweep, or several by a pattern (night-*); all where null
-- terminal: cell, config, processes, wall_ms, device_ms, wall_over_device, launch_bound
-- none: the device's time is known of no trial: it is measured on a GPU
--
-- A row a cell and config, of the processes whose device time is known. What a setting saves on the
-- device does not show in a loop that waits for the CPU's launches; a CUDA graph would show it.
--
-- processes: processes whose wall and device times are known
-- wall_ms: wall time per iteration, median over processes
-- device_ms: device time per iteration, free of launch gaps, median
-- wall_over_device: wall time / device time, median
-- launch_gap_ms: wall time less device time, median: what the device stands idle; below 0: noise
-- launch_gap_share: of wall time, median
-- launch_bound: wall time is over 1.1 × device time in most processes
-- launch_bound_share: share of the processes where it is
-- device_source: graph (replays of a CUDA graph) or profiler (sum of kernel times)
with found as (
    select -- noqa: ST06
        settings,
        loop_kind,
        count(*) as processes,
        median(steady_wall_ms) as wall_ms,
        median(steady_device_ms) as device_ms,
        median(steady_wall_ms / steady_device_ms) as wall_over_device,
        median(steady_wall_ms - steady_device_ms) as launch_gap_ms,
        median(1 - steady_device_ms / steady_wall_ms) as launch_gap_share,
        avg(launch_bound::int) > 0.5 as launch_bound,
        avg(launch_bound::int) as launch_bound_share,
        min(steady_device_source) as device_source,
        cell_id,
        env_hash,
        software_hash,
        workload_hash
    from configured(null, $sweep_id)
    where status = 'ok' and steady_wall_ms > 0 and steady_device_ms > 0
    group by cell_id, env_hash, software_hash, workload_hash, settings, loop_kind
)

select
    labels.* exclude (cell_id, cell_order), -- noqa: AM04, RF02
    found.*
from found
inner join cell_labels() as labels on found.cell_id = labels.cell_id
order by
    labels.cell_order, found.software_hash, found.settings, found.loop_kind, found.cell_id,
    found.env_hash, found.workload_hash
