import type { WebhookList, WebhookStatus } from '../../protocol/wire/inference/job.ts'
import { ActButton } from '../actions/act-button.tsx'
import { redeliver } from '../actions/work-acts.ts'
import { ago, nothing, shortTime } from '../parts/format.ts'
import { Frame } from '../parts/frame.tsx'
import { Id, Pill, useNow } from '../parts/small.tsx'
import { Cut, Empty, Part } from '../parts/states.tsx'
import { useLoad } from '../state/load.ts'

const everyMs = 10_000
const webhooksMax = 100

const tones: Readonly<Record<WebhookStatus, string>> = {
  pending: 'plain',
  delivering: 'info',
  delivered: 'good',
  retry_scheduled: 'warn',
  failed: 'bad',
  disabled: 'bad',
}
const statusText = (status: string) => status.replaceAll('_', ' ')

export function WebhookTable() {
  const now = useNow()
  const [webhooks, again] = useLoad<WebhookList>(`/v1/admin/webhooks?limit=${webhooksMax}`, everyMs)
  return (
    <Part what="webhooks" loaded={webhooks} again={again}>
      {(data) => (
        <section aria-labelledby="webhooks-title">
          <h2 id="webhooks-title">Webhooks</h2>
          {data.webhooks.length === 0 ? (
            <Empty title="No webhook yet">A job with a webhook_url makes one when it ends.</Empty>
          ) : (
            <>
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
                      <th scope="col">
                        <span class="visually-hidden">Actions</span>
                      </th>
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
                        <td class="actions">
                          {webhook.status !== null && <ActButton act={redeliver(webhook)} on={webhook.job_id} />}
                        </td>
                      </tr>
                    ))}
                  </tbody>
                </table>
              </Frame>
              <Cut rows={data.webhooks.length} limit={webhooksMax} what="the newest webhooks" />
            </>
          )}
        </section>
      )}
    </Part>
  )
}
