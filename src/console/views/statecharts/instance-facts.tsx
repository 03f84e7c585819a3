import { duration, shortTime } from '../../parts/format.ts'
import type { InstanceSource, Row } from '../../parts/instances.ts'
import { Id, Pill } from '../../parts/small.tsx'
import { OneTransaction } from '../../parts/transaction.tsx'
import { amountText } from '../../parts/wei.tsx'

interface SubCall {
  readonly role: string
  readonly model: string
  readonly weight: number | null
  readonly status: string
  readonly node_id: string
  /** null: it gave no answer. */
  readonly latency_ms: number | null
}

const instant = /^\d{4}-\d\d-\d\dT[\d:.]+Z$/

function factText(name: string, value: unknown): string | null {
  if (value === null || value === '' || typeof value === 'object') return null
  if (name.endsWith('_ms') && typeof value === 'number') return duration(value)
  if (typeof value === 'string' && instant.test(value)) return shortTime(value)
  return typeof value === 'boolean' ? (value ? 'yes' : 'no') : String(value)
}

function Fact({ name, text }: { name: string; text: string }) {
  if (name.endsWith('_wei')) return <span title={`${text} wei`}>{amountText(text)}</span>
  if (name.endsWith('tx_hash')) return <OneTransaction hash={text} />
  return name.endsWith('_id') || text.startsWith('0x') ? <Id id={text} /> : text
}

const isSubCalls = (value: unknown): value is readonly SubCall[] => Array.isArray(value) && value.length > 0

/** How many experts answered, and how many had to. */
function Quorum({ row, experts }: { row: Row; experts: readonly SubCall[] }) {
  const asked = experts.filter(({ role }) => role === 'expert')
  const answered = asked.filter(({ status }) => status === 'ok').length
  return (
    <p>
      <b>{String(row.strategy)}</b>: {answered} of {asked.length} experts answered
      {typeof row.min_experts === 'number' && `; at least ${row.min_experts} had to`}
      {row.degraded === true && (
        <>
          {' '}
          <Pill tone="warn" text="degraded" />
        </>
      )}
    </p>
  )
}

/** What the row of an instance says beside its state: whatever plain members it has. */
export function InstanceFacts({ row, source }: { row: Row | undefined; source: InstanceSource }) {
  if (row === undefined) return null
  const said = new Set([source.id, source.name, source.state])
  const members = Object.entries(row).filter(([name]) => !said.has(name))
  const facts = members.flatMap(([name, value]) => {
    const text = factText(name, value)
    return text === null ? [] : [[name, text] as const]
  })
  return (
    <>
      <dl class="facts narrow">
        {facts.map(([name, text]) => (
          <div key={name}>
            <dt>{name.replace(/_(at|ms|wei)$/, '').replaceAll('_', ' ')}</dt>
            <dd title={text}>
              <Fact name={name} text={text} />
            </dd>
          </div>
        ))}
      </dl>
      {isSubCalls(row.experts) && <Quorum row={row} experts={row.experts} />}
      {isSubCalls(row.experts) && (
        <ol class="sub-calls" aria-label="Sub-calls">
          {row.experts.map(({ role, model, weight, status, latency_ms }, at) => (
            <li key={at}>
              <span>{role}</span> <code>{model}</code>{' '}
              <span class={status === 'ok' ? 'good-text' : 'bad-text'}>{status}</span>{' '}
              <span class="muted">
                {weight !== null && `weight ${weight}, `}
                {duration(latency_ms)}
              </span>
            </li>
          ))}
        </ol>
      )}
    </>
  )
}
