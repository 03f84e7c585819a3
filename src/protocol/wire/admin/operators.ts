import { type Static, Type } from '@sinclair/typebox'
import { brand } from '../../../brand.ts'
import { nameCharactersMax, namePattern, nameWords } from '../../../person-names.ts'
import { count, formed, Instant, literals, NullableInstant, nullable, reason, strict } from '../shapes.ts'

export const roles = ['viewer', 'operator', 'admin'] as const
const role = literals(roles)
const shownOnce = (what: string) => Type.String({ description: `${what}. Only this answer shows it.` })

export const AdminCreate = Type.Object(
  {
    name: formed(namePattern, nameWords, {
      maxLength: nameCharactersMax,
      description: 'The person or program whose token it is',
    }),
    role: literals(roles),
    reason,
  },
  strict,
)

const adminFields = {
  admin_id: Type.String(),
  name: Type.String(),
  role,
  display_prefix: Type.String({ description: 'The first 16 characters of the token' }),
  created_at: Instant,
  last_used_at: nullable(Type.String({ format: 'date-time', description: 'To the minute' })),
  revoked_at: NullableInstant,
}
/** A role token that bears a name. */
export const Admin = Type.Object(adminFields)
export type Admin = Static<typeof Admin>
export const AdminCreated = Type.Object({ ...adminFields, token: shownOnce('The role token') })
export type AdminCreated = Static<typeof AdminCreated>
export const AdminList = Type.Object({
  object: Type.Literal(`${brand}.admin.admin_list`),
  generated_at: Instant,
  count,
  admins: Type.Array(Admin),
})
export type AdminList = Static<typeof AdminList>

const sessionFields = {
  session_id: Type.String(),
  name: nullable(Type.String({ description: 'null: signed in with a token that bears no name' })),
  role,
  method: literals(['token', 'oidc']),
  actor_hash_prefix: Type.String(),
  admin_id: nullable(Type.String()),
  state: literals(['open', 'idle', 'expired', 'ended']),
  created_at: Instant,
  last_seen_at: Instant,
  expires_at: Instant,
  ended_at: NullableInstant,
  end_reason: nullable(literals(['signed_out', 'revoked', 'admin_revoked', 'replaced'])),
}
/** Somebody who is, or was, signed in to the console. */
export const Session = Type.Object(sessionFields)
export type Session = Static<typeof Session>
export const SessionBegun = Type.Object({
  ...sessionFields,
  session_token: shownOnce('What the console sends in place of the role token'),
})
export type SessionBegun = Static<typeof SessionBegun>
export const SessionList = Type.Object({
  object: Type.Literal(`${brand}.admin.session_list`),
  generated_at: Instant,
  count,
  sessions: Type.Array(Session),
})
export type SessionList = Static<typeof SessionList>

/** Who stands behind the events of one answer: beside them, because their own fields are the specification's. */
export const Actors = Type.Array(
  Type.Object({
    event_id: Type.String(),
    actor_hash_prefix: nullable(Type.String()),
    actor_name: nullable(Type.String()),
    approver_hash_prefix: nullable(Type.String()),
    approver_name: nullable(Type.String()),
  }),
  {
    description:
      'Who acted, by the id of the event (extension). A name stays when its token or session is gone; null: no name is known.',
  },
)
export type Actors = Static<typeof Actors>
