import { Elysia } from 'elysia'
import { type AdminAction, adminRoutes } from '../../actions/registry.ts'
import type { Caller, Role } from '../../actors/accounts/access.ts'
import { headers, tokenPrefixes } from '../../brand.ts'
import { Problem } from '../../errors.ts'
import { hashToken } from '../../secrets.ts'
import { adminCall } from '../frame/admin-call.ts'
import type { HttpContext, HttpExchange } from '../frame/context.ts'
import { refusedLogin } from '../frame/refused-login.ts'
import { actionKey } from '../frame/route-table.ts'
import { accessAudit } from './access-audit.ts'
import { requestId } from './request-id.ts'

const ranks: Readonly<Record<Role, number>> = { viewer: 0, operator: 1, admin: 2 }
/** The length of the hash under which a token's requests are counted. The token itself is not stored. */
const tokenHashCharacters = 24
/** Without a configured key there is only one gateway, so the count is not shared. */
const processSalt = crypto.randomUUID()

/** The actor of an admin request. */
export interface AdminActor {
  readonly role: Role
  readonly caller: Caller
}

const sessionOver = 'This session has ended, or never existed. Sign in again.'

async function authenticate({ gateway }: HttpContext, exchange: HttpExchange, { headers: sent }: Request) {
  const token = sent.get(headers.adminToken)
  const param = `header.${headers.adminToken}`
  if (token === null) throw new Problem('missing_credentials', { param })
  const caller = await gateway.callers.find(token)
  if (caller === null) {
    const hint = token.startsWith(tokenPrefixes.session) ? { detail: sessionOver } : {}
    throw refusedLogin(gateway, exchange.address, new Problem('invalid_credentials', { param, ...hint }))
  }
  return { caller, token }
}

/** Who acts, for the audit; the list of names learns it where the caller has a name. */
function actorHashOf({ gateway }: HttpContext, caller: Caller, token: string): string {
  const hash = caller.actorHash ?? gateway.audit.actorPrefix(token)
  gateway.admins.calls(caller, hash)
  return hash
}

/**
 * Everything under `/v1/admin`: who is it, how often, and is the role enough — in this order, and all of it before a
 * body or a query is looked at, so that a stranger with a bad query still sees 401. A route names its row of
 * `actions/registry.ts` once, `action: '…'`, and has its role and its policy from there.
 */
export const admin = (context: HttpContext) =>
  new Elysia({ name: 'admin' })
    .use(accessAudit(context))
    .use(requestId(context))
    .derive(async ({ exchange, request, set }) => {
      const { caller, token } = await authenticate(context, exchange, request)
      const { role } = caller
      exchange.role = role
      exchange.actorHash = actorHashOf(context, caller, token)
      const { callers, config, limits } = context.gateway
      callers.use(caller, !request.headers.has(headers.unattended))
      // All sessions of one actor are counted together.
      const counted = caller.sessionId === null ? token : exchange.actorHash
      const hash = hashToken(config.SVC_AUDIT_KEY ?? processSalt, counted).toString('hex')
      Object.assign(set.headers, await limits.takeAdmin(hash.slice(0, tokenHashCharacters)))
      return {
        actor: { role, caller } satisfies AdminActor as AdminActor,
        call: adminCall(context, exchange, request, token),
      }
    })
    .macro({
      action: (action: AdminAction) => {
        const row = adminRoutes[action]
        return {
          detail: { [actionKey]: row, security: [{ RoleToken: [] }] } as object,
          transform: (request: object) => {
            const { actor, exchange } = request as { actor: AdminActor; exchange: HttpExchange }
            exchange.action = row
            if (ranks[actor.role] >= ranks[row.role]) return
            throw new Problem('insufficient_role', { detail: `This needs the role ${row.role}` })
          },
        }
      },
    })
    .as('scoped')

/**
 * What routes of operators are mounted on, many on one: an instance of its own for each of them takes more of a gateway's start
 * than all else that Elysia does.
 */
export const operatorDoor = (context: HttpContext) => new Elysia().use(admin(context))
export type OperatorDoor = ReturnType<typeof operatorDoor>
