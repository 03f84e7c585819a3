import { useState } from 'preact/hooks'
import type { Costs } from '../../../protocol/wire/money/costs.ts'
import { Download } from '../../parts/download.tsx'
import { count, monthOf, shortTime } from '../../parts/format.ts'
import { Frame } from '../../parts/frame.tsx'
import { Id } from '../../parts/small.tsx'
import { Empty, Part } from '../../parts/states.tsx'
import { Wei } from '../../parts/wei.tsx'
import { useLoad } from '../../state/load.ts'

const groupings = [
  ['customer', 'Customer'],
  ['model', 'Model'],
  ['key', 'Key'],
  ['month', 'Month'],
  ['tag', 'Tag'],
] as const
type Grouping = Costs['by']
const withId: readonly Grouping[] = ['customer', 'key']

const monthsOffered = 24

interface Month {
  readonly label: string
  readonly from: string
  readonly to: string
}

/** This month and those before it, as UTC has them. */
function months(nowMs: number): readonly Month[] {
  const now = new Date(nowMs)
  const start = (back: number) => new Date(Date.UTC(now.getUTCFullYear(), now.getUTCMonth() - back, 1))
  return Array.from({ length: monthsOffered }, (_, back) => ({
    label: monthOf(start(back)),
    from: start(back).toISOString(),
    to: start(back - 1).toISOString(),
  }))
}

/** What was paid in a month, by customer, model, key or tag; or month by month. */
export function CostsPart() {
  const [all] = useState(() => months(Date.now()))
  const [at, setAt] = useState(0)
  const [by, setBy] = useState<Grouping>('customer')
  const oldest = all.at(-1)?.from ?? ''
  const month = all[at]
  const from = by === 'month' ? oldest : (month?.from ?? '')
  const to = (by === 'month' ? all[0]?.to : month?.to) ?? ''
  const path = `/v1/admin/billing/costs?${new URLSearchParams({ by, from, to, limit: '1000' })}`
  const [costs, again] = useLoad<Costs>(path)
  return (
    <section aria-labelledby="costs-title">
      <h2 id="costs-title">Costs</h2>
      <div class="acts">
        <label class="inline" for="costs-month">
          In
        </label>
        <select
          id="costs-month"
          disabled={by === 'month'}
          value={at}
          onChange={(event) => setAt(Number(event.currentTarget.value))}
        >
          {all.map(({ label }, index) => (
            <option key={label} value={index}>
              {label}
            </option>
          ))}
        </select>
        <label class="inline" for="costs-by">
          by
        </label>
        <select id="costs-by" value={by} onChange={(event) => setBy(event.currentTarget.value as Grouping)}>
          {groupings.map(([value, label]) => (
            <option key={value} value={value}>
              {label}
            </option>
          ))}
        </select>
        <Download path={`${path}&format=csv`} name={`costs-by-${by}.csv`} what="Export costs" />
      </div>
      <Part what="the costs" loaded={costs} again={again}>
        {(data) => <CostTable costs={data} />}
      </Part>
    </section>
  )
}

function CostTable({ costs }: { costs: Costs }) {
  if (costs.costs.length === 0) {
    return (
      <Empty title="Nothing was paid">Work on own nodes costs nothing. Paid work on other people’s nodes does.</Empty>
    )
  }
  const [, name] = groupings.find(([by]) => by === costs.by) ?? groupings[0]
  return (
    <>
      {costs.kept_from !== null && <p class="muted">Requests before {shortTime(costs.kept_from)} are not kept.</p>}
      <Frame label={`Costs by ${costs.by}`}>
        <table class="cards">
          <thead>
            <tr>
              <th scope="col">{name}</th>
              <th scope="col" class="number">
                Paid requests
              </th>
              <th scope="col" class="number">
                Tokens in / out
              </th>
              <th scope="col" class="number">
                Paid
              </th>
              <th scope="col" class="number">
                Given back
              </th>
            </tr>
          </thead>
          <tbody>
            {costs.costs.map((cost) => (
              <tr key={cost.key}>
                <th scope="row">
                  {cost.name ?? (withId.includes(costs.by) ? null : cost.key)}{' '}
                  {withId.includes(costs.by) && cost.key !== null && <Id id={cost.key} />}
                </th>
                <td data-label="Paid requests" class="number">
                  {count(cost.count)}
                </td>
                <td data-label="Tokens in / out" class="number">
                  {count(cost.prompt_tokens)} / {count(cost.completion_tokens)}
                </td>
                <td data-label="Paid" class="number">
                  <Wei wei={cost.amount_wei} />
                </td>
                <td data-label="Given back" class="number">
                  <Wei wei={cost.refunded_wei} />
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      </Frame>
      {costs.truncated && <p class="muted">Only the dearest {count(costs.count)} are shown.</p>}
    </>
  )
}
