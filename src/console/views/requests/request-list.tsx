import { useEffect, useState } from 'preact/hooks'
import type { AdminModelList } from '../../../protocol/wire/admin/catalogue.ts'
import type { AdminRequest, AdminRequestList } from '../../../protocol/wire/admin/requests.ts'
import { FilterForm, type FilterValues } from '../../parts/filter-form.tsx'
import { clockTime, count, duration, nothing, shortId, shortTime, tokenPair } from '../../parts/format.ts'
import { Frame } from '../../parts/frame.tsx'
import { Cell, Named, Pill } from '../../parts/small.tsx'
import { Empty, Part } from '../../parts/states.tsx'
import { type Names, useCustomerNames, useKeyNames } from '../../state/account-names.ts'
import { useLoad } from '../../state/load.ts'
import { namesToCome, useNodeNames } from '../../state/node-names.ts'
import { addressOf } from '../../state/place.ts'
import { mayAct } from '../../state/session.ts'
import { outcomes, readRequestFilters, requestFields } from './request-filters.ts'

/** Each leads to the requests that have it. */
export const tagTexts = ({ tags }: AdminRequest) =>
  tags.length === 0
    ? nothing
    : tags.flatMap((tag, at) => [
        at === 0 ? '' : ', ',
        <a key={tag} href={addressOf('requests', null, { tag })}>
          {tag}
        </a>,
      ])

const tailEveryMs = 2_000
const rowsShown = 100

export const toneOf = (status: number) =>
  status < 400 ? 'good' : status === 499 ? 'plain' : status < 500 ? 'warn' : 'bad'

const slowMs = '2000'
const hourMs = 3_600_000

/** What is asked for most, at one click; the other filters stay. */
function QuickFilters({ filters }: { filters: FilterValues }) {
  const { outcome = '', min_ttft_ms: late = '', from = '' } = filters
  const to = (values: FilterValues) => addressOf('requests', null, { ...filters, ...values })
  const hour = () => {
    location.hash = to({ from: new Date(Date.now() - hourMs).toISOString(), to: '' })
  }
  return (
    <nav aria-label="Which requests" class="quick">
      <ul class="tabs">
        {outcomes.map(([value, title]) => (
          <li key={value}>
            <a href={to({ outcome: value })} aria-current={value === outcome ? 'true' : undefined}>
              {title}
            </a>
          </li>
        ))}
      </ul>
      <ul class="tabs">
        <li>
          <a
            href={to({ min_ttft_ms: late === slowMs ? '' : slowMs })}
            aria-current={late === slowMs ? 'true' : undefined}
          >
            First token after 2 s
          </a>
        </li>
        <li>
          {from === '' ? (
            <button type="button" onClick={hour}>
              Last hour
            </button>
          ) : (
            <a href={to({ from: '', to: '' })}>Any time</a>
          )}
        </li>
      </ul>
    </nav>
  )
}

/** Newest first, and by itself anew until somebody pauses it or looks at an older page. */
export function RequestList({ query }: { query: URLSearchParams }) {
  const filters = readRequestFilters(query)
  const cursor = query.get('cursor') ?? ''
  const [paused, setPaused] = useState(false)
  const follows = !paused && cursor === ''
  const names = useNodeNames()
  const customers = useCustomerNames()
  const keys = useKeyNames(customers)
  const [catalogue] = useLoad<AdminModelList>('/v1/admin/models?limit=10000')
  const models = catalogue.kind === 'ready' ? catalogue.data.models.map(({ id }) => id) : []
  const asked = addressOf('', null, { ...filters, cursor, limit: String(rowsShown) }).slice(1)
  const [list, again] = useLoad<AdminRequestList>(`/v1/admin/requests${asked}`, follows ? tailEveryMs : null)
  // A page that was left and is opened again begins with its newest.
  useEffect(() => setPaused(false), [asked])
  return (
    <section aria-label="Requests">
      <QuickFilters filters={filters} />
      <FilterForm
        key={query.toString()}
        view="requests"
        fields={requestFields({ models, nodes: names, customers, keys })}
        values={filters}
        kept={{ outcome: filters.outcome ?? '' }}
        able={![names, customers, keys].includes(namesToCome)}
      />
      <div class="tail-bar">
        <button
          type="button"
          class="quiet"
          aria-pressed={!follows}
          disabled={cursor !== ''}
          onClick={() => setPaused(!paused)}
        >
          {follows ? 'Pause' : 'Paused'}
        </button>
        <p class="muted" role="status">
          {follows ? 'New requests appear by themselves.' : 'This list stands still.'}
        </p>
        {cursor !== '' && <a href={addressOf('requests', null, filters)}>Newest</a>}
      </div>
      <Part what="the requests" loaded={list} again={again}>
        {({ requests, next_cursor }) => (
          <>
            {requests.length > 0 ? (
              <RequestTable requests={requests} names={names} customers={customers} />
            ) : next_cursor === null ? (
              <Empty title="No request">None fits, or none was asked since the gateway keeps them.</Empty>
            ) : (
              <Empty title="None yet">None fits among the newest of these requests. Older ones may.</Empty>
            )}
            {next_cursor !== null && (
              <a class="older" href={addressOf('requests', null, { ...filters, cursor: next_cursor })}>
                Older requests
              </a>
            )}
          </>
        )}
      </Part>
    </section>
  )
}

interface TableProps {
  readonly requests: readonly AdminRequest[]
  readonly names: Names
  readonly customers: Names
}

function RequestTable({ requests, names, customers }: TableProps) {
  return (
    <Frame label="Requests, newest first">
      <table class="cards requests">
        <thead>
          <tr>
            <th scope="col">At</th>
            <th scope="col">Status</th>
            {mayAct('operator') && <th scope="col">Customer</th>}
            <th scope="col">Model</th>
            <th scope="col">Node</th>
            <th scope="col" class="number">
              Tries
            </th>
            <th scope="col" class="number">
              Queued
            </th>
            <th scope="col" class="number">
              First token
            </th>
            <th scope="col" class="number">
              Took
            </th>
            <th scope="col" class="number">
              Tokens in / out
            </th>
            {mayAct('operator') && <th scope="col">Tags</th>}
          </tr>
        </thead>
        <tbody>
          {requests.map((request) => (
            <RequestRow key={request.request_id} request={request} names={names} customers={customers} />
          ))}
        </tbody>
      </table>
    </Frame>
  )
}

interface RowProps extends Omit<TableProps, 'requests'> {
  readonly request: AdminRequest
}

function RequestRow({ request, names, customers }: RowProps) {
  const { request_id: id, node_id: node, customer_id: customer } = request
  const recent = Date.now() - Date.parse(request.at) < 86_400_000
  return (
    <tr>
      <th scope="row">
        <a href={addressOf('requests', id)} title={id}>
          {recent ? clockTime(request.at) : shortTime(request.at)}
        </a>
      </th>
      <Cell label="Status">
        <Pill tone={toneOf(request.status)} text={String(request.status)} />{' '}
        {request.code !== null && <code>{request.code}</code>}
      </Cell>
      {mayAct('operator') && (
        <Cell label="Customer">{customer === null ? nothing : <Named id={customer} names={customers} />}</Cell>
      )}
      <Cell label="Model">{request.model ?? (request.operation === 'mixture' ? 'mixture' : nothing)}</Cell>
      <Cell label="Node">{node === null ? nothing : (names.get(node) ?? shortId(node))}</Cell>
      <Cell label="Tries" number>
        {count(request.tries)}
      </Cell>
      <Cell label="Queued" number>
        {request.queue_ms === 0 ? nothing : duration(request.queue_ms)}
      </Cell>
      <Cell label="First token" number>
        {duration(request.ttft_ms)}
      </Cell>
      <Cell label="Took" number>
        {duration(request.duration_ms)}
      </Cell>
      <Cell label="Tokens in / out" number>
        {tokenPair(request.prompt_tokens, request.completion_tokens)}
      </Cell>
      {mayAct('operator') && <Cell label="Tags">{tagTexts(request)}</Cell>}
    </tr>
  )
}
