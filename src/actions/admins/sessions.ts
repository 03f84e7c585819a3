import { SessionList } from '../../protocol/wire/admin/operators.ts'
import { limitOf } from '../../protocol/wire/query.ts'
import { defineList } from '../frame/define-list.ts'
import { tag } from './admin.ts'

const ends = { signed_out: 'signed out', revoked: 'revoked', admin_revoked: 'token revoked', replaced: 'replaced' }

export const sessionList = defineList({
  name: 'session.list',
  at: 'GET /v1/admin/sessions',
  role: 'admin',
  category: 'observability',
  summary: 'List who is signed in to the console, and who was in the last 30 days',
  tag,
  query: { limit: limitOf(100, 1_000) },
  result: SessionList,
  rows: 'sessions',
  read: async ({ gateway, views, query: { limit } }) => (await gateway.sessions.list(limit)).map(views.sessionView),
  command: {
    words: 'admins sessions',
    options: {},
    columns: [
      ['SESSION', (session) => session.session_id],
      ['WHO', (session) => session.name ?? session.actor_hash_prefix],
      ['ROLE', (session) => session.role],
      ['BY', (session) => session.method],
      ['STATE', ({ state, end_reason: reason }) => (reason === null ? state : ends[reason])],
      ['BEGAN', (session, print) => print.time(session.created_at)],
      ['LAST SEEN', (session, print) => print.time(session.last_seen_at)],
      ['ENDS', (session, print) => print.time(session.ended_at ?? session.expires_at)],
    ],
    empty: 'Nobody has signed in to the console.',
  },
})
