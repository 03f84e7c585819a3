import type { JobList, JobStatus, WebhookList, WebhookStatus } from '../../protocol/wire/inference/job.ts'
import { ago, nothing, shortTime } from '../parts/format.ts'
import { Frame } from '../parts/frame.tsx'
import { Id, Pill, useNow } from '../parts/small.tsx'
import { Empty, Part } from '../parts/states.tsx'
import { useLoad } from '../state/load.ts'

const everyMs = 10_000

const tones: Readonly<Record<JobStatus | WebhookStatus, string>> = {
  queued: 'plain',
  pending: 'plain',
  completed: 'good',
  delivered: 'good',
  running: 'info',
  dispatched: 'info',
  delivering: 'info',
  retry_scheduled: 'warn',
  expired: 'warn',
  cancelled: 'plain',
  failed: 'bad',
  disabled: 'bad',
}
const statusText = (status: string) => status.replaceAll('_', ' ')

/** Private jobs and their webhooks: who, where, how far; never what. */
export function Jobs() {
  return (
    <>
      <h1>Jobs</h1>
      <JobTable />
      <WebhookTable />
    </>
  )
}

function JobTable() {
  const now = useNow()
  const [jobs, again] = useLoad<JobList>('/v1/admin/jobs?limit=100', everyMs)
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
                    </tr>
                  ))}
                </tbody>
              </table>
            </Frame>
          )}
        </section>
      )}
    </Part>
  )
}

function WebhookTable() {
  const now = useNow()
  const [webhooks, again] = useLoad<WebhookList>('/v1/admin/webhooks?limit=100', everyMs)
  return (
    <Part what="webhooks" loaded={webhooks} again={again}>
      {(data) => (
        <section aria-labelledby="webhooks-title">
          <h2 id="webhooks-title">Webhooks</h2>
          {data.webhooks.length === 0 ? (
            <Empty title="No webhook yet">A job with a webhook_url makes one when it ends.</Empty>
          ) : (
            <Frame label="Webhooks, newest first">
              <table class="cards">
                <thead>
                  <tr>
                    <th scope="col">Of job</th>
                    <th scope="col">Status</th>
                    <th scope="col" class="number">
                      Attempts
                    </th>
                    <th scope="col">Last error</th>
                    <th scope="col">Next attempt</th>
                    <th scope="col">Last attempt</th>
                  </tr>
                </thead>
                <tbody>
                  {data.webhooks.map((webhook) => (
                    <tr key={webhook.webhook_id}>
                      <th scope="row">
                        <a href={`#statecharts/webhook-delivery/${webhook.webhook_id}`}>
                          <Id id={webhook.job_id} />
                        </a>
                      </th>
                      <td data-label="Status">
                        <Pill
                          tone={webhook.status === null ? 'plain' : tones[webhook.status]}
                          text={webhook.status === null ? 'waits for the job' : statusText(webhook.status)}
                        />
                      </td>
                      <td data-label="Attempts" class="number">
                        {webhook.attempts}
                      </td>
                      <td data-label="Last error">
                        {webhook.last_error === null ? nothing : <code>{webhook.last_error}</code>}
                      </td>
                      <td data-label="Next attempt">
                        {webhook.next_attempt_at === null ? nothing : shortTime(webhook.next_attempt_at)}
                      </td>
                      <td data-label="Last attempt">
                        {webhook.last_attempt_at === null ? nothing : ago(webhook.last_attempt_at, now)}
                      </td>
                    </tr>
                  ))}
                </tbody>
              </table>
            </Frame>
          )}
        </section>
      )}
    </Part>
  )
}
