import type { Admin, AdminList, Session, SessionList } from '../../../protocol/wire/admin/operators.ts'
import { ActButton, ActButtons } from '../../actions/act-button.tsx'
import { actOn } from '../../actions/action-acts.ts'
import { nothing, shortTime } from '../../parts/format.ts'
import { type Column, LongTable } from '../../parts/long-table.tsx'
import { Id, Pill } from '../../parts/small.tsx'
import { Cut, Empty, Part } from '../../parts/states.tsx'
import { useLoad } from '../../state/load.ts'
import { mayAct } from '../../state/session.ts'

const everyMs = 10_000
const rowsMax = 1_000

/** Who may do what here by a token with a name, and who is signed in. */
export function People() {
  if (!mayAct('admin')) {
    return <Empty title="Not for this role">An admin token shows who may do what, and who is signed in.</Empty>
  }
  return (
    <>
      <NamedTokens />
      <Sessions />
    </>
  )
}

function NamedTokens() {
  const [list, again] = useLoad<AdminList>(`/v1/admin/admins?limit=${rowsMax}`, everyMs)
  return (
    <section aria-labelledby="tokens-title">
      <div class="title-bar">
        <h2 id="tokens-title">Named tokens</h2>
        <ActButton act={actOn('admin.create', {})} label="New token" kind="primary" />
      </div>
      <Part what="the named tokens" loaded={list} again={again}>
        {({ admins }) =>
          admins.length === 0 ? (
            <Empty title="No named token yet">Give each person one, and the audit shows who did what.</Empty>
          ) : (
            <>
              <LongTable
                label="Named tokens, newest first"
                rows={admins}
                keyOf={({ admin_id: id }) => id}
                textOf={({ admin_id, name, role }) => `${name} ${role} ${admin_id}`}
                columns={tokenColumns}
                actions={(admin) => <ActButtons kind="admin" row={admin} on={admin.name} />}
              />
              <Cut rows={admins.length} limit={rowsMax} what="the newest tokens" />
            </>
          )
        }
      </Part>
    </section>
  )
}

const tokenColumns: readonly Column<Admin>[] = [
  {
    title: 'Name',
    by: ({ name }) => name,
    show: ({ admin_id, name }) => (
      <>
        {name} <Id id={admin_id} />
      </>
    ),
  },
  { title: 'Role', by: ({ role }) => role, show: ({ role }) => role },
  {
    title: 'State',
    by: ({ revoked_at }) => (revoked_at === null ? 'active' : 'revoked'),
    show: ({ revoked_at }) => (
      <Pill tone={revoked_at === null ? 'good' : 'bad'} text={revoked_at === null ? 'active' : 'revoked'} />
    ),
  },
  { title: 'Begins with', show: ({ display_prefix }) => <code>{display_prefix}</code> },
  {
    title: 'Last used',
    by: ({ last_used_at }) => last_used_at,
    show: ({ last_used_at }) => (last_used_at === null ? nothing : shortTime(last_used_at)),
  },
]

const nameOf = ({ name, actor_hash_prefix }: Session) => name ?? actor_hash_prefix

function Sessions() {
  const [list, again] = useLoad<SessionList>(`/v1/admin/sessions?limit=${rowsMax}`, everyMs)
  return (
    <section aria-labelledby="sessions-title">
      <h2 id="sessions-title">Sessions of the console</h2>
      <Part what="the sessions" loaded={list} again={again}>
        {({ sessions }) => (
          <>
            <LongTable
              label="Sessions, newest first"
              rows={sessions}
              keyOf={({ session_id: id }) => id}
              textOf={(session) => `${nameOf(session)} ${session.role} ${session.session_id} ${stateOf(session)}`}
              columns={sessionColumns}
              actions={(session) => (
                <ActButtons
                  kind="session"
                  row={{ ...session, who: nameOf(session) }}
                  on={`the session of ${nameOf(session)}, begun ${shortTime(session.created_at)}`}
                />
              )}
            />
            <Cut rows={sessions.length} limit={rowsMax} what="the newest sessions" />
          </>
        )}
      </Part>
    </section>
  )
}

const ends = { signed_out: 'signed out', revoked: 'ended', admin_revoked: 'token revoked', replaced: 'replaced' }
const tones = { open: 'good', idle: 'warn', expired: 'plain', ended: 'plain' } as const
const ways = { token: 'role token', oidc: 'OpenID Connect' } as const
const stateOf = ({ state, end_reason: reason }: Session) => (reason === null ? state : ends[reason])

const sessionColumns: readonly Column<Session>[] = [
  {
    title: 'Who',
    by: nameOf,
    show: (session) => (
      <>
        {session.name ?? <code>{session.actor_hash_prefix}</code>} <Id id={session.session_id} />
      </>
    ),
  },
  { title: 'Role', by: ({ role }) => role, show: ({ role }) => role },
  { title: 'Signed in by', by: ({ method }) => method, show: ({ method }) => ways[method] },
  { title: 'State', by: stateOf, show: (session) => <Pill tone={tones[session.state]} text={stateOf(session)} /> },
  { title: 'Began', by: ({ created_at }) => created_at, show: ({ created_at }) => shortTime(created_at) },
  { title: 'Last seen', by: ({ last_seen_at }) => last_seen_at, show: ({ last_seen_at }) => shortTime(last_seen_at) },
  {
    title: 'Ends',
    by: ({ ended_at, expires_at }) => ended_at ?? expires_at,
    show: ({ ended_at, expires_at }) => shortTime(ended_at ?? expires_at),
  },
]
