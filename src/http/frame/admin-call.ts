import type { Static, TSchema } from '@sinclair/typebox'
import type { AuditContext } from '../../actors/audit/audit-context.ts'
import { headers } from '../../brand.ts'
import { Problem } from '../../errors.ts'
import { type AdminRoute, needsSecondApprover } from '../../machines/rules/admin-route.ts'
import type { Precondition } from '../../precondition.ts'
import { readBody } from '../../protocol/json/json-body.ts'
import { checkReasonHeader, reasonHeader } from './admin-input.ts'
import type { HttpContext, HttpExchange } from './context.ts'
import { preconditionOf } from './precondition.ts'
import { refusedLogin } from './refused-login.ts'

/** The checked body of a call and its audit context, as an action needs them. */
export interface AuditedBody<B> {
  readonly body: B
  readonly audit: AuditContext
}

/**
 * An admin call that changes something. Its body and its audit context come together, so that no verb can be reached
 * without the reason and the second admin that its action asks for.
 */
export interface AdminCall {
  /** `mayBeEmpty`: a missing body counts as `{}`. */
  body<S extends TSchema>(schema: S, mayBeEmpty: boolean): Promise<AuditedBody<Static<S>>>
  /** For a route without a body, whose reason travels in a header. */
  bare(): AuditContext
  /** The caller's precondition on the row (`If-Match`). `etag`: in the body. */
  precondition(etag?: string | null): Precondition | null
}

const controls = /[\u0000-\u001f\u007f-\u009f]/g

/** `actorToken` is the caller's token, which was already accepted. */
export function adminCall(
  context: HttpContext,
  exchange: HttpExchange,
  request: Request,
  actorToken: string,
): AdminCall {
  const audited = (body: object): AuditContext => {
    if (exchange.action === null) throw new Error('an admin route without its action')
    return auditContext(context, { exchange, request, actorToken, row: exchange.action }, body)
  }
  return {
    body: async (schema, mayBeEmpty) => {
      checkReasonHeader(request)
      const empty = mayBeEmpty && (request.body === null || request.headers.get('content-length') === '0')
      const body = empty ? {} : await context.connections.body(request, readBody(request, schema))
      return { body: body as Static<typeof schema>, audit: audited(body as object) }
    },
    precondition: (etag = null) => preconditionOf(request, etag),
    bare: () => {
      checkReasonHeader(request)
      return audited({})
    },
  }
}

interface Caller {
  readonly exchange: HttpExchange
  readonly request: Request
  readonly actorToken: string
  readonly row: AdminRoute
}

function auditContext(context: HttpContext, caller: Caller, given: object): AuditContext {
  const { exchange, request, row } = caller
  const { config } = context.gateway
  const body = given as { readonly reason?: string; readonly confirm?: string; readonly dry_run?: boolean }
  const reason = reasonOf(body.reason ?? request.headers.get(reasonHeader))
  // A dry run changes nothing, so it needs no reason and no second admin.
  const dry = row.dryRun && body.dry_run === true
  if (config.SVC_ENFORCE_REASON && row.reasonRequired && reason === null && !dry) throw reasonRequired()
  const approver = config.SVC_REQUIRE_SECOND_APPROVER && needsSecondApprover(row) && !dry
  return {
    action: row.action,
    actorType: 'admin_token',
    actorRole: exchange.role ?? 'viewer',
    actorHashPrefix: exchange.actorHash,
    approverHashPrefix: approver ? secondApprover(context, caller) : null,
    reason,
    confirmation: confirmationOf(row, body.confirm),
    requestId: exchange.requestId,
  }
}

function reasonOf(given: string | null): string | null {
  const text = given?.replaceAll(controls, '').trim() ?? ''
  return text === '' ? null : text
}

/** Keeps the confirmation only if it is the expected text, because another text could contain anything. */
function confirmationOf({ typedConfirmation }: AdminRoute, given: string | undefined): string | null {
  return given !== undefined && given === typedConfirmation ? given : null
}

function reasonRequired(): Problem {
  const detail = `This action needs a reason. Send \`reason\` in the body, or the header ${reasonHeader}.`
  return new Problem('reason_required', { param: 'reason', detail })
}

/** The hash prefix of the second admin's token (§16). */
function secondApprover({ gateway }: HttpContext, { exchange, request, actorToken }: Caller): string | null {
  const param = `header.${headers.approverToken}`
  const token = request.headers.get(headers.approverToken)
  if (token === null)
    throw new Problem('missing_credentials', { param, detail: 'This action needs the token of a second admin' })
  const role = gateway.access.role(token)
  if (role === null) throw refusedLogin(gateway, exchange.address, new Problem('invalid_credentials', { param }))
  const approver = gateway.audit.actorPrefix(token)
  // A person who signed in with a token is no second person to it.
  const isSame = token === actorToken || approver === exchange.actorHash
  if (role !== 'admin' || isSame) {
    throw new Problem('insufficient_role', {
      param,
      detail: 'The second token must have the role admin and differ from the first',
    })
  }
  return approver
}
