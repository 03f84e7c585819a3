import type { JobList, JobStatus } from '../../protocol/wire/inference/job.ts'
import { ActButtons } from '../actions/act-button.tsx'
import { ago, nothing, shortTime } from '../parts/format.ts'
import { type Column, LongTable } from '../parts/long-table.tsx'
import { Id, Named, Pill, useNow } from '../parts/small.tsx'
import { Cut, Empty, Part } from '../parts/states.tsx'
import type { Names } from '../state/account-names.ts'
import { useLoad } from '../state/load.ts'
import { useNodeNames } from '../state/node-names.ts'

type Job = JobList['jobs'][number]

const everyMs = 10_000
const jobsMax = 1_000

const tones: Readonly<Record<JobStatus, string>> = {
  queued: 'plain',
  dispatched: 'info',
  running: 'info',
  completed: 'good',
  failed: 'bad',
  expired: 'warn',
  cancelled: 'plain',
}

/** Who, where, how far; never what. */
export function PrivateJobTable() {
  const now = useNow()
  const names = useNodeNames()
  const [jobs, again] = useLoad<JobList>(`/v1/admin/jobs?limit=${jobsMax}`, everyMs)
  return (
    <Part what="private jobs" loaded={jobs} again={again}>
      {(data) => (
        <section aria-labelledby="jobs-title">
          <h2 id="jobs-title">Private jobs</h2>
          {data.jobs.length === 0 ? (
            <Empty title="No private job yet">
              A customer seals one with the client library or ./penstock jobs submit.
            </Empty>
          ) : (
            <>
              <LongTable
                label="Private jobs, newest first"
                rows={data.jobs}
                keyOf={({ command_id: id }) => id}
                textOf={(job) =>
                  [job.job_id, job.status, job.model_id, job.node_id, names.get(job.node_id), job.error_code].join(' ')
                }
                columns={columnsAt(now, names)}
                actions={(job) => <ActButtons kind="job" row={job} on={job.job_id} />}
              />
              <Cut rows={data.jobs.length} limit={jobsMax} what="the newest jobs" />
            </>
          )}
        </section>
      )}
    </Part>
  )
}

const columnsAt = (now: number, names: Names): readonly Column<Job>[] => [
  {
    title: 'Job',
    show: (job) => (
      <a href={`#statecharts/private-job/${job.command_id}`}>
        <Id id={job.job_id} />
      </a>
    ),
  },
  { title: 'Status', by: ({ status }) => status, show: ({ status }) => <Pill tone={tones[status]} text={status} /> },
  { title: 'Model', by: ({ model_id: model }) => model, show: ({ model_id: model }) => model },
  {
    title: 'Node',
    by: ({ node_id: id }) => names.get(id) ?? id,
    show: ({ node_id: id }) => <Named id={id} names={names} />,
  },
  { title: 'Attempt', number: true, by: ({ attempt }) => attempt, show: ({ attempt }) => attempt },
  {
    title: 'Error',
    by: ({ error_code: code }) => code,
    show: ({ error_code: code }) => (code === null ? nothing : <code>{code}</code>),
  },
  {
    title: 'Made',
    by: ({ created_at: at }) => at,
    show: ({ created_at: at }) => <span title={shortTime(at)}>{ago(at, now)}</span>,
  },
]
