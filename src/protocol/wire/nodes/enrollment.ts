import { type Static, Type } from '@sinclair/typebox'
import { brand } from '../../../brand.ts'
import { count, Instant, id, literals, NullableInstant, nodeTier, nullable, reason, strict, text } from '../shapes.ts'

/** Enrolment tokens as the admin routes make and show them (§22, §23). */

const visibility = literals(['private', 'public'])
const privacyClass = literals(['public', 'trusted', 'private'])
const nodeClass = nodeTier({ description: 'A route tier' })

export const EnrollmentTokenCreate = Type.Object(
  {
    customer_id: id,
    name: text(128),
    visibility: { ...visibility, description: 'The highest class that the node may ask for' },
    node_class: nodeClass,
    privacy_class: privacyClass,
    endpoint_url_allowed: Type.Optional(
      Type.Boolean({
        description: 'Whether the gateway may call the node at its own address. By default it uses the node’s tunnel.',
      }),
    ),
    reason,
  },
  strict,
)

const tokenFields = {
  token_id: Type.String(),
  customer_id: Type.String(),
  name: Type.String(),
  display_prefix: Type.String({ description: 'The first 16 characters of the token' }),
  visibility,
  node_class: Type.String(),
  privacy_class: privacyClass,
  endpoint_url_allowed: Type.Boolean(),
  state: literals(['open', 'used', 'expired']),
  created_at: Instant,
  expires_at: Instant,
  used_at: NullableInstant,
  node_id: nullable(Type.String({ description: 'The node that used it' })),
}
export const EnrollmentToken = Type.Object(tokenFields)
export type EnrollmentToken = Static<typeof EnrollmentToken>
export const EnrollmentTokenIssued = Type.Object({
  ...tokenFields,
  enrollment_token: Type.String({ description: 'The token itself. Only this answer shows it.' }),
  gateway_url: Type.String({ description: 'Where the agent finds this gateway' }),
  agent: Type.Object(
    { url: Type.String(), sha256: Type.String({ pattern: '^[0-9a-f]{64}$' }) },
    { description: 'The agent that this gateway serves' },
  ),
  bun: nullable(
    Type.Object(
      {
        url: Type.String(),
        sha256: Type.String({ pattern: '^[0-9a-f]{64}$' }),
        platform: Type.String({ description: 'As `uname -sm` prints it' }),
      },
      { description: 'The Bun that this gateway passes on, for a computer of the same platform' },
    ),
  ),
  line: nullable(Type.String({ description: 'The command to paste on the other computer' })),
  powershell_line: nullable(
    Type.String({ description: 'The command to paste into PowerShell, where that computer runs Windows' }),
  ),
})
export type EnrollmentTokenIssued = Static<typeof EnrollmentTokenIssued>
export const EnrollmentTokenList = Type.Object({
  object: Type.Literal(`${brand}.admin.enrollment_token_list`),
  generated_at: Instant,
  count,
  enrollment_tokens: Type.Array(EnrollmentToken),
})
export type EnrollmentTokenList = Static<typeof EnrollmentTokenList>
