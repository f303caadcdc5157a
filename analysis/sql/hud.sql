-- Which records can be uploaded to PyTorch's benchmark database, for its dashboard (HUD)?
-- none: no process ended well
--
-- There is one row for each sweep, cell, config and metric. `--format json` writes the file to
-- upload, with the fields of oss_ci_benchmark_v3. The GitHub action for the upload adds the rest.
with by_metric as ( -- noqa: disable=LT01,RF04
    unpivot (
        select *
        from night_processes(null, null)
        where software is null and ($sweep_id is null or sweep_id glob $sweep_id)
    )
    on steady_wall, steady_device, cold_empty, cold_warm, peak_memory, error
    into name metric value found
),

grouped as (
    select
        columns([
            'night', 'cell_id', 'env_hash', 'software_hash', 'workload_hash', 'settings', 'metric'
        ]),
        mode(host order by host) as host,
        mode(cpu_model order by cpu_model) as cpu_model,
        list(found order by block, found) as found
    from by_metric
    where isfinite(found)
    group by night, cell_id, env_hash, software_hash, workload_hash, settings, metric
)

select
    {
        'name': 'cudnn-sweep',
        'mode': if(labels.direction in ('forward', 'inference'), 'inference', 'training'),
        'dtype': labels.precision,
        'extra_info': {
            'settings': grouped.settings,
            'direction': labels.direction,
            'input_shape': labels.input_shape,
            'regime': labels.regime,
            'state': labels.state,
            'layout': labels.layout,
            'sweep_id': grouped.night,
            'cell_id': grouped.cell_id
        }
    } as benchmark, -- name, mode and dtype; `extra_info` has the other axes, config and sweep
    {
        'name': coalesce(labels.problem, labels.workload),
        'type': if(labels.problem is null, 'workload', 'convolution'),
        'backend': 'cudnn',
        'origins': ['cudnn-sweep']
    } as model, -- name and type of the workload or convolution
    [
        {
            'name': if(software.driver is null, 'cpu', 'cuda'),
            'type': labels.gpu,
            'cpu_info': coalesce(grouped.cpu_model, ''),
            'gpu_info': labels.gpu,
            'gpu_count': 1,
            'extra_info': {'hostname': grouped.host}
        }
    ] as runners, -- machine, with the GPU model as its type
    {
        'pytorch': {'repo': 'pytorch/pytorch', 'version': software.torch},
        'cudnn': {'version': coalesce(software.cudnn::text, '')},
        'driver': {'version': coalesce(software.driver, '')}
    } as dependencies, -- versions of PyTorch, cuDNN and the driver
    {
        'name': grouped.metric,
        'benchmark_values': grouped.found,
        'extra_info': {
            'unit': case grouped.metric
                when 'peak_memory' then 'bytes'
                when 'error' then 'share'
                else 'ms'
            end
        }
    } as metric -- name and unit of the metric, with its value in each process
from grouped
inner join cell_labels() as labels on grouped.cell_id = labels.cell_id
inner join software_labels() as software on grouped.software_hash = software.software_hash
order by
    grouped.night, labels.cell_order, grouped.settings, grouped.metric, grouped.software_hash,
    grouped.env_hash, grouped.cell_id, grouped.workload_hash
