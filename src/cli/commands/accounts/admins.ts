import type { AdminList } from '../../../protocol/wire/admin/operators.ts'
import type { Verb } from '../../frame/action.ts'
import { CliFailure } from '../../frame/failure.ts'
import type { GatewayClient } from '../../frame/gateway-client.ts'

/** The name of a token that works is looked up; no two of them have the same. */
export async function adminIdOf(gateway: GatewayClient, given: string): Promise<string> {
  if (given.startsWith('adm_')) return given
  const { admins: all } = await gateway.admin<AdminList>({ path: '/v1/admin/admins?limit=1000' })
  const wanted = given.trim().toLowerCase()
  const found = all.find(({ name, revoked_at }) => revoked_at === null && name.toLowerCase() === wanted)
  if (found !== undefined) return found.admin_id
  throw new CliFailure(`No token bears the name ${given}`, ['What there is: ./penstock admins list'])
}

export const admins: Verb = {
  name: 'admins',
  about: 'Manage role tokens that bear names, and the sessions of the console',
  actions: {},
}
