import type { WebhookDelivery as Webhook, WebhookList, WebhookStatus } from '../../protocol/wire/inference/job.ts'
import { ActButtons } from '../actions/act-button.tsx'
import { ago, nothing, shortTime } from '../parts/format.ts'
import { type Column, LongTable } from '../parts/long-table.tsx'
import { Id, Pill, useNow } from '../parts/small.tsx'
import { Cut, Empty, Part } from '../parts/states.tsx'
import { useLoad } from '../state/load.ts'

const everyMs = 10_000
const webhooksMax = 1_000

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
              <LongTable
                label="Webhooks, newest first"
                rows={data.webhooks}
                keyOf={({ webhook_id: id }) => id}
                textOf={(webhook) => [webhook.webhook_id, webhook.job_id, said(webhook), webhook.last_error].join(' ')}
                columns={columnsAt(now)}
                actions={(webhook) => <ActButtons kind="webhook" row={webhook} on={webhook.job_id} />}
              />
              <Cut rows={data.webhooks.length} limit={webhooksMax} what="the newest webhooks" />
            </>
          )}
        </section>
      )}
    </Part>
  )
}

const said = ({ status }: Webhook) => (status === null ? 'waits for the job' : statusText(status))

const columnsAt = (now: number): readonly Column<Webhook>[] => [
  {
    title: 'Of job',
    show: (webhook) => (
      <a href={`#statecharts/webhook-delivery/${webhook.webhook_id}`}>
        <Id id={webhook.job_id} />
      </a>
    ),
  },
  {
    title: 'Status',
    by: said,
    show: (webhook) => <Pill tone={webhook.status === null ? 'plain' : tones[webhook.status]} text={said(webhook)} />,
  },
  { title: 'Attempts', number: true, by: ({ attempts }) => attempts, show: ({ attempts }) => attempts },
  {
    title: 'Last error',
    by: ({ last_error: error }) => error,
    show: ({ last_error: error }) => (error === null ? nothing : <code>{error}</code>),
  },
  {
    title: 'Next attempt',
    by: ({ next_attempt_at: at }) => at,
    show: ({ next_attempt_at: at }) => (at === null ? nothing : shortTime(at)),
  },
  {
    title: 'Last attempt',
    by: ({ last_attempt_at: at }) => at,
    show: ({ last_attempt_at: at }) => (at === null ? nothing : ago(at, now)),
  },
]
