import type { AccessEventList, ApprovalEventList, CommandEventList } from '../../../protocol/wire/admin/audit.ts'
import type { Actors } from '../../../protocol/wire/admin/operators.ts'
import { Download } from '../../parts/download.tsx'
import { type FilterField, FilterForm, rangeFields, readFilters, statusForm } from '../../parts/filter-form.tsx'
import { nothing, shortTime } from '../../parts/format.ts'
import { Frame } from '../../parts/frame.tsx'
import { Id, Named, Pill } from '../../parts/small.tsx'
import { Empty, Part } from '../../parts/states.tsx'
import { type Names, useCustomerNames, useKeyNames } from '../../state/account-names.ts'
import { useLoad } from '../../state/load.ts'
import { useNodeNames } from '../../state/node-names.ts'
import { addressOf } from '../../state/place.ts'

type Actor = Actors[number]
/** An event with who acted, where the gateway knows it. */
type Acted<E> = E & { readonly actor: Actor | undefined }
type AccessEvent = Acted<AccessEventList['events'][number]>
type ApprovalEvent = Acted<ApprovalEventList['events'][number]>
type CommandEvent = Acted<CommandEventList['events'][number]>
type AnyEvent = AccessEvent | ApprovalEvent | CommandEvent

interface Column<E> {
  readonly name: string
  /** `names`: of nodes, customers and keys, by id. */
  readonly cell: (event: E, names: Names) => preact.ComponentChildren
}

interface EventList {
  readonly title: string
  readonly route: string
  readonly fields: readonly FilterField[]
  readonly columns: readonly Column<never>[]
}

const role: FilterField = { name: 'actor_role', label: 'Role', offers: ['viewer', 'operator', 'admin'] }
const by: FilterField = { name: 'actor', label: 'Person' }
const methodForm = { pattern: '[A-Z]+', form: 'Type a method in capital letters, such as POST.' } as const
const outcomes = { success: 'good', denied: 'warn', failed: 'warn', error: 'bad' } as const

/** Leads to all that this person did, in the same list. */
function Person({ name, prefix, page }: { name: string | null; prefix: string | null; page: string }) {
  if (prefix === null) return null
  return <a href={addressOf('audit', page, { actor: name ?? prefix })}>{name ?? <code>{prefix}</code>}</a>
}

/** The name where the token bears one, its hash prefix else; and who agreed, where two had to. */
const actorOf = (page: string) =>
  function Actor({ actor_type: type, actor_role: given, actor }: AnyEvent) {
    if (type !== 'admin_token') return type
    return (
      <>
        {actor !== undefined && <Person name={actor.actor_name} prefix={actor.actor_hash_prefix} page={page} />}{' '}
        <small>{given}</small>
        {actor !== undefined && actor.approver_hash_prefix !== null && (
          <>
            {' '}
            with <Person name={actor.approver_name} prefix={actor.approver_hash_prefix} page={page} />
          </>
        )}
      </>
    )
  }
const reasonOf = ({ reason }: ApprovalEvent | CommandEvent) => reason ?? <span class="muted">none</span>

const listed = <E,>(columns: readonly Column<E>[]) => columns as readonly Column<never>[]

const lists: Readonly<Record<string, EventList>> = {
  calls: {
    title: 'Calls of the administration, newest first',
    route: '/v1/admin/access-events',
    fields: [
      { name: 'method', label: 'Method', ...methodForm, offers: ['GET', 'POST', 'PUT', 'PATCH', 'DELETE'] },
      { name: 'path_template', label: 'Path' },
      { name: 'status_code', label: 'Status', ...statusForm },
      by,
      role,
      ...rangeFields,
    ],
    columns: listed<AccessEvent>([
      { name: 'By', cell: actorOf('calls') },
      {
        name: 'Outcome',
        cell: ({ outcome, status_code }) => <Pill tone={outcomes[outcome]} text={`${status_code} ${outcome}`} />,
      },
      { name: 'Error', cell: ({ error_code }) => (error_code === null ? nothing : <code>{error_code}</code>) },
      {
        name: 'Token',
        cell: ({ actor_hash_prefix }) => (actor_hash_prefix === null ? nothing : <code>{actor_hash_prefix}</code>),
      },
    ]),
  },
  approvals: {
    title: 'What was changed, newest first',
    route: '/v1/admin/approval-events',
    fields: [
      { name: 'action', label: 'Action' },
      { name: 'category', label: 'Category' },
      { name: 'target_type', label: 'Kind of target' },
      { name: 'target_id', label: 'Target' },
      by,
      role,
      ...rangeFields,
    ],
    columns: listed<ApprovalEvent>([
      {
        name: 'Target',
        cell: ({ target_id, target_type }, names) =>
          target_id === null ? target_type : <Named id={target_id} names={names} />,
      },
      { name: 'By', cell: actorOf('approvals') },
      { name: 'Reason', cell: reasonOf },
    ]),
  },
  commands: {
    title: 'Commands to nodes, newest first',
    route: '/v1/admin/command-events',
    fields: [{ name: 'action', label: 'Action' }, { name: 'command_id', label: 'Command' }, by, role, ...rangeFields],
    columns: listed<CommandEvent>([
      { name: 'Command', cell: ({ command_id }) => <Id id={command_id} /> },
      { name: 'By', cell: actorOf('commands') },
      { name: 'Reason', cell: reasonOf },
    ]),
  },
}

const whatOf = (event: AnyEvent) => ('path_template' in event ? `${event.method} ${event.path_template}` : event.action)

/** One of the three lists, with its filters in the address. */
export function EventLists({ page, query }: { page: string; query: URLSearchParams }) {
  const list = lists[page]
  if (list === undefined) return <Empty title="No such page">Choose one above.</Empty>
  return <Events key={page} page={page} list={list} query={query} />
}

interface EventPage {
  readonly events: readonly AnyEvent[]
  readonly actors: Actors
  readonly next_cursor: string | null
}

function Events({ page, list, query }: { page: string; list: EventList; query: URLSearchParams }) {
  const values = readFilters(list.fields, query)
  const cursor = query.get('cursor') ?? ''
  const asked = (more: Readonly<Record<string, string>>) => addressOf('', null, { ...values, ...more }).slice(1)
  const [loaded, again] = useLoad<EventPage>(`${list.route}${asked({ cursor, limit: '100' })}`)
  return (
    <section aria-label={list.title}>
      <FilterForm key={query.toString()} view="audit" id={page} fields={list.fields} values={values} />
      <p class="acts">
        <Download path={`${list.route}${asked({ format: 'csv' })}`} name={`${page}.csv`} what="Export all that fit" />
      </p>
      <Part what="the events" loaded={loaded} again={again}>
        {({ events, actors, next_cursor }) =>
          events.length === 0 ? (
            <Empty title="No event">None fits.</Empty>
          ) : (
            <>
              <EventTable list={list} events={withActors(events, actors)} />
              {next_cursor !== null && (
                <a class="older" href={addressOf('audit', page, { ...values, cursor: next_cursor })}>
                  Older events
                </a>
              )}
            </>
          )
        }
      </Part>
    </section>
  )
}

function withActors(events: readonly AnyEvent[], actors: Actors): readonly AnyEvent[] {
  const byEvent = new Map(actors.map((actor) => [actor.event_id, actor]))
  return events.map((event) => ({ ...event, actor: byEvent.get(event.event_id) }))
}

function EventTable({ list, events }: { list: EventList; events: readonly AnyEvent[] }) {
  const customers = useCustomerNames()
  const names = new Map([...useNodeNames(), ...customers, ...useKeyNames(customers)])
  return (
    <Frame label={list.title}>
      <table class="cards">
        <thead>
          <tr>
            <th scope="col">What</th>
            {list.columns.map(({ name }) => (
              <th key={name} scope="col">
                {name}
              </th>
            ))}
            <th scope="col">At</th>
          </tr>
        </thead>
        <tbody>
          {events.map((event) => (
            <tr key={event.event_id}>
              <th scope="row">
                <code>{whatOf(event)}</code>
              </th>
              {list.columns.map(({ name, cell }) => (
                <td key={name} data-label={name}>
                  {cell(event as never, names)}
                </td>
              ))}
              <td data-label="At" title={event.created_at}>
                {shortTime(event.created_at)}
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </Frame>
  )
}
