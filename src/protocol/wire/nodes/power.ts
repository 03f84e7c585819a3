import { type Static, Type } from '@sinclair/typebox'
import { formed, literals, strict } from '../shapes.ts'

/** What an agent says of its computer: whether it sleeps or yields, and how it is woken (§39). */

/** A computer with more network cards is a switch. */
export const macsMax = 4
export const networksMax = 8
const yieldReasonsMax = 8

const macForm = '^[0-9a-f]{2}(:[0-9a-f]{2}){5}$'
/** Lower case, of one card: a group address wakes nobody in particular. */
const macAddress = formed(macForm, 'a hardware address such as 3c:7c:3f:01:02:03, in lower case')
const macPattern = new RegExp(macForm)
const nobody = '00:00:00:00:00:00'

/** As a person may write it: with capital letters, and with hyphens. */
export const writtenMac = formed(
  '^[0-9A-Fa-f]{2}([:-][0-9A-Fa-f]{2}){5}$',
  'a hardware address such as 3c:7c:3f:01:02:03',
)
export const lowerMac = (text: string): string => text.trim().toLowerCase().replaceAll('-', ':')

/** Reads `3C-7C-3F-01-02-03` or `3c:7c:3f:01:02:03`, as `macAddress` has it. null: it is the address of no single card. */
export function macOf(text: string): string | null {
  const mac = lowerMac(text)
  if (!macPattern.test(mac) || mac === nobody) return null
  return (Number.parseInt(mac.slice(0, 2), 16) & 1) === 1 ? null : mac
}

/** IPv4 in CIDR form, of a network that the computer is on. */
const network = formed('^[0-9]{1,3}(\\.[0-9]{1,3}){3}/(?:[0-9]|[12][0-9]|3[0-2])$', 'a network such as 192.168.1.0/24')

const powerStates = ['awake', 'asleep', 'yielding'] as const
const yieldReason = formed('^[a-z][a-z-]{0,31}$', 'the name of a probe')

/** Part of the status of an agent whose owner has switched any of it on; absent of all others, and of earlier versions. */
export const NodePower = Type.Object(
  {
    state: literals(powerStates),
    reasons: Type.Optional(
      Type.Array(yieldReason, { maxItems: yieldReasonsMax, description: 'The probes by which it yields' }),
    ),
    macs: Type.Optional(
      Type.Array(macAddress, {
        minItems: 1,
        maxItems: macsMax,
        description: 'The cards that listen for a magic packet',
      }),
    ),
    secure_on: Type.Optional(
      Type.Unsafe<string>({ ...macAddress, description: 'SecureOn: the password behind a magic packet for it' }),
    ),
    networks: Type.Optional(Type.Array(network, { minItems: 1, maxItems: networksMax })),
    wakes_others: Type.Optional(Type.Literal(true, { description: 'It sends magic packets into its networks' })),
    suspends: Type.Optional(Type.Literal(true, { description: 'It can be told to sleep' })),
  },
  strict,
)
export type NodePower = Static<typeof NodePower>

/** `POST /svc/v1/wake` of an agent: sends one magic packet into its networks. Signed by the gateway. */
export const WakeOrder = Type.Object({ mac: macAddress, secure_on: Type.Optional(macAddress) }, strict)
export type WakeOrder = Static<typeof WakeOrder>
