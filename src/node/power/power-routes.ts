import { Type } from '@sinclair/typebox'
import { Problem } from '../../errors.ts'
import { checkBody } from '../../protocol/json/json-body.ts'
import { macOf, WakeOrder } from '../../protocol/wire/nodes/power.ts'
import { strict } from '../../protocol/wire/shapes.ts'
import type { Power } from './power.ts'

export const powerBodyBytesMax = 1_024

const Nothing = Type.Object({}, strict)
const accepted = () => Response.json({ status: 'accepted' }, { status: 202, headers: { 'cache-control': 'no-store' } })

/** The gateway sends this computer to sleep. Throws `invalid_state` where its owner has named no command, and while anything runs. */
export function answerSleep(power: Power, body: string): Response {
  if (body !== '') checkBody(body, Nothing)
  if (!power.suspends) throw new Problem('invalid_state', { detail: 'The owner has named no command that suspends it' })
  if (!power.orderSleep()) throw new Problem('invalid_state', { detail: 'Something runs on this computer' })
  return accepted()
}

/** The gateway has a packet sent for another computer of this network. Throws `invalid_state` where the owner has not allowed it. */
export async function answerWake(power: Power, wakesOthers: boolean, body: string): Promise<Response> {
  const order = checkBody(body, WakeOrder)
  if (!wakesOthers) throw new Problem('invalid_state', { detail: 'The owner lets this agent send no magic packets' })
  if (macOf(order.mac) === null) throw new Problem('invalid_request', { param: 'mac' })
  try {
    await power.packets.send(order.mac, order.secure_on ?? null)
  } catch (error) {
    throw new Problem('service_unavailable', { detail: 'No network of this computer takes the packet', cause: error })
  }
  return accepted()
}
