import type { RequestStory } from '../../../protocol/wire/admin/requests.ts'
import { duration, fullTime, nothing, percent, shortId, tokenPair } from '../../parts/format.ts'
import { Named, Pill, Prose } from '../../parts/small.tsx'
import { Empty, Part } from '../../parts/states.tsx'
import { type Happening, Timeline } from '../../parts/timeline.tsx'
import { amountText } from '../../parts/wei.tsx'
import { useCustomerNames, useKeyNames } from '../../state/account-names.ts'
import { useLoad } from '../../state/load.ts'
import { useNodeNames } from '../../state/node-names.ts'
import { addressOf } from '../../state/place.ts'
import { RequestExplain } from './request-explain.tsx'
import { tagTexts, toneOf } from './request-list.tsx'
import { RequestReceipt } from './request-receipt.tsx'

type Names = ReadonlyMap<string, string>

/** One request: what happened in order, why on its node, and its receipt. `receipt`: asked for by its hash. */
export function RequestPage({ id, receipt }: { id: string; receipt: string | null }) {
  const names = useNodeNames()
  const [story, again] = useLoad<RequestStory>(`/v1/admin/requests/${encodeURIComponent(id)}`)
  const gone = story.kind === 'failed' && story.requestId !== null && receipt !== null
  return (
    <article class="request-page" aria-label={`Request ${id}`}>
      <p>
        <a href="#requests">All requests</a>
      </p>
      {gone ? (
        <>
          <Empty title="This request is no longer kept">Its receipt stays.</Empty>
          <RequestReceipt hash={receipt} />
        </>
      ) : (
        <Part what="the request" loaded={story} again={again}>
          {(data) => <Story story={data} names={names} />}
        </Part>
      )}
    </article>
  )
}

function happeningsOf({ request, attempts }: RequestStory, nameOf: (nodeId: string) => string): readonly Happening[] {
  const { queue_ms, load_ms, ttft_ms, duration_ms, code } = request
  const calls = attempts.map((attempt) => ({
    title: `${nameOf(attempt.node_id)} was asked${attempt.code === null ? '' : `: ${attempt.code}`}`,
    atMs: attempt.started_ms,
    tookMs: attempt.duration_ms,
    tone: attempt.code === null ? ('good' as const) : ('bad' as const),
  }))
  return [
    { title: 'It came in', atMs: 0, tookMs: null },
    ...(queue_ms > 0 ? [{ title: 'It waited for a slot', atMs: 0, tookMs: queue_ms }] : []),
    ...(load_ms === null ? [] : [{ title: 'Its model was loaded', atMs: queue_ms, tookMs: load_ms }]),
    ...calls,
    ...(ttft_ms === null ? [] : [{ title: 'The first token came', atMs: ttft_ms, tookMs: null }]),
    {
      title: code === null ? 'It was done' : `It ended: ${code}`,
      atMs: duration_ms,
      tookMs: null,
      ...(code === null ? {} : { tone: 'bad' as const }),
    },
  ].toSorted((a, b) => a.atMs - b.atMs)
}

function Story({ story, names }: { story: RequestStory; names: Names }) {
  const { request, cause, explain } = story
  const nameOf = (nodeId: string) => names.get(nodeId) ?? shortId(nodeId)
  return (
    <>
      <section aria-labelledby="request-title" class="panel">
        <h2 id="request-title">
          <code>{request.request_id}</code> <Pill tone={toneOf(request.status)} text={String(request.status)} />
        </h2>
        <Facts story={story} nameOf={nameOf} />
        <p class="links">
          <a href={`#statecharts/${request.operation === 'mixture' ? 'mixture' : 'request'}/${request.request_id}`}>
            Its statechart
          </a>
          {request.model !== null && request.operation === 'chat' && (
            <a href={addressOf('try', null, { model: request.model })}>Same model in Try it</a>
          )}
        </p>
      </section>
      {cause !== null && <Cause cause={cause} />}
      <section aria-labelledby="timeline-title" class="panel">
        <h2 id="timeline-title">What happened</h2>
        <Timeline happenings={happeningsOf(story, nameOf)} wholeMs={request.duration_ms} />
      </section>
      {explain !== null && <RequestExplain explain={explain} nameOf={nameOf} />}
      {request.receipt_hash !== null && <RequestReceipt hash={request.receipt_hash} />}
    </>
  )
}

function Cause({ cause: { title, means, next, help_url: help } }: { cause: NonNullable<RequestStory['cause']> }) {
  return (
    <section aria-labelledby="cause-title" class="panel">
      <h2 id="cause-title">Why it failed: {title}</h2>
      <p>
        <Prose text={means} />
      </p>
      <p>
        <Prose text={next} />{' '}
        <a href={help} target="_blank" rel="noreferrer">
          More about this error
        </a>
      </p>
    </section>
  )
}

function Facts({ story: { request }, nameOf }: { story: RequestStory; nameOf: (nodeId: string) => string }) {
  const { customer_id: customer, key_id: key, node_id: node, cost_wei: cost } = request
  const customers = useCustomerNames()
  const keys = useKeyNames(customers)
  return (
    <dl class="facts">
      <div>
        <dt>At</dt>
        <dd>{fullTime(request.at)}</dd>
      </div>
      <div>
        <dt>Operation</dt>
        <dd>
          {request.operation}
          {request.stream && ', streamed'}
        </dd>
      </div>
      <div>
        <dt>Model</dt>
        <dd>{request.model ?? nothing}</dd>
      </div>
      <div>
        <dt>Node</dt>
        <dd>{node === null ? nothing : <a href={`#statecharts/node/${node}`}>{nameOf(node)}</a>}</dd>
      </div>
      <div>
        <dt>First token</dt>
        <dd>{duration(request.ttft_ms)}</dd>
      </div>
      <div>
        <dt>Took</dt>
        <dd>{duration(request.duration_ms)}</dd>
      </div>
      <div>
        <dt>Waited for a slot / its model</dt>
        <dd>
          {request.queue_ms === 0 ? nothing : duration(request.queue_ms)} / {duration(request.load_ms)}
        </dd>
      </div>
      <div>
        <dt>In the node’s cache</dt>
        <dd>{request.cache_percent === null ? nothing : percent(request.cache_percent / 100)}</dd>
      </div>
      <div>
        <dt>Tokens in / out</dt>
        <dd>{tokenPair(request.prompt_tokens, request.completion_tokens)}</dd>
      </div>
      <div>
        <dt>Cost</dt>
        <dd>{cost === null ? 'free' : <span title={`${cost} wei`}>{amountText(cost)}</span>}</dd>
      </div>
      <div>
        <dt>Customer</dt>
        <dd>
          {customer === null ? (
            nothing
          ) : (
            <a href={addressOf('customers', customer)}>
              <Named id={customer} names={customers} />
            </a>
          )}
        </dd>
      </div>
      <div>
        <dt>Key</dt>
        <dd>{key === null ? nothing : <Named id={key} names={keys} />}</dd>
      </div>
      <div>
        <dt>Tags</dt>
        <dd>{tagTexts(request)}</dd>
      </div>
      <div>
        <dt>Code</dt>
        <dd>{request.code === null ? nothing : <code>{request.code}</code>}</dd>
      </div>
    </dl>
  )
}
