import { type Static, Type } from '@sinclair/typebox'
import { formed, id, literals, strict } from '../shapes.ts'

/** What an agent can find wrong with its gateway (§36). */
const alarmCodes = ['payee_changed', 'receipt_missing', 'receipt_replaced'] as const
/** Of one report: the newest. */
export const alarmsSentMax = 20

const instant = formed(
  '^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\\.[0-9]{3}Z$',
  'an RFC 3339 time in UTC with milliseconds',
)

/** Contains nothing of what was asked: a payout, or the request of a receipt. */
export const NodeAlarm = Type.Object(
  {
    code: literals(alarmCodes),
    subject: formed('^[A-Za-z0-9_-]{1,64}$', '1 to 64 letters, digits, _ or -', {
      description: 'The payout; of a receipt its request',
    }),
    at: instant,
  },
  strict,
)
export type NodeAlarm = Static<typeof NodeAlarm>

/** `POST /v1/nodes/{node_id}/alarms`: what the node has found wrong, in its own name. */
export const NodeAlarms = Type.Object(
  {
    alarms: Type.Array(NodeAlarm, { minItems: 1, maxItems: alarmsSentMax }),
    signed_at: formed(
      '^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\\.[0-9]{3}Z$',
      'an RFC 3339 time in UTC with milliseconds',
      { description: 'At most 300 s from now' },
    ),
    signature_ed25519: formed('^[A-Za-z0-9_-]{86}={0,2}$', 'an Ed25519 signature as base64url, which is 86 characters'),
  },
  strict,
)
export type NodeAlarms = Static<typeof NodeAlarms>
export const NodeAlarmsAccepted = Type.Object({ status: Type.Literal('told'), node_id: id, count: Type.Integer() })
