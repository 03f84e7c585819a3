import type { JobList, JobStatus } from '../../protocol/wire/inference/job.ts'
import { ActButton } from '../actions/act-button.tsx'
import { cancelJob } from '../actions/work-acts.ts'
import { ago, nothing, shortTime } from '../parts/format.ts'
import { Frame } from '../parts/frame.tsx'
import { Id, Pill, useNow } from '../parts/small.tsx'
import { Cut, Empty, Part } from '../parts/states.tsx'
import { useLoad } from '../state/load.ts'

const everyMs = 10_000
const jobsMax = 100

const tones: Readonly<Record<JobStatus, string>> = {
  queued: 'plain',
  dispatched: 'info',
  running: 'info',
  completed: 'good',
  failed: 'bad',
  expired: 'warn',
  cancelled: 'plain',
}

const unended: readonly JobStatus[] = ['queued', 'dispatched', 'running']

/** Who, where, how far; never what. */
export function PrivateJobTable() {
  const now = useNow()
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
              <Frame label="Private jobs, newest first">
                <table class="cards">
                  <thead>
                    <tr>
                      <th scope="col">Job</th>
                      <th scope="col">Status</th>
                      <th scope="col">Model</th>
                      <th scope="col">Node</th>
                      <th scope="col" class="number">
                        Attempt
                      </th>
                      <th scope="col">Error</th>
                      <th scope="col">Made</th>
                      <th scope="col">
                        <span class="visually-hidden">Actions</span>
                      </th>
                    </tr>
                  </thead>
                  <tbody>
                    {data.jobs.map((job) => (
                      <tr key={job.command_id}>
                        <th scope="row">
                          <a href={`#statecharts/private-job/${job.command_id}`}>
                            <Id id={job.job_id} />
                          </a>
                        </th>
                        <td data-label="Status">
                          <Pill tone={tones[job.status]} text={job.status} />
                        </td>
                        <td data-label="Model">{job.model_id}</td>
                        <td data-label="Node">
                          <Id id={job.node_id} />
                        </td>
                        <td data-label="Attempt" class="number">
                          {job.attempt}
                        </td>
                        <td data-label="Error">{job.error_code === null ? nothing : <code>{job.error_code}</code>}</td>
                        <td data-label="Made" title={shortTime(job.created_at)}>
                          {ago(job.created_at, now)}
                        </td>
                        <td class="actions">
                          {unended.includes(job.status) && (
                            <ActButton act={cancelJob(job)} on={job.job_id} label="Cancel" />
                          )}
                        </td>
                      </tr>
                    ))}
                  </tbody>
                </table>
              </Frame>
              <Cut rows={data.jobs.length} limit={jobsMax} what="the newest jobs" />
            </>
          )}
        </section>
      )}
    </Part>
  )
}
