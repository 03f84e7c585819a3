import { Elysia } from 'elysia'
import { ownBun } from '../../../actors/agents/own-bun.ts'
import { brand } from '../../../brand.ts'
import {
  EnrollmentTokenCreate,
  EnrollmentTokenIssued,
  EnrollmentTokenList,
} from '../../../protocol/wire/nodes/enrollment.ts'
import { isoTime } from '../../../time.ts'
import { enrollmentTokenParams } from '../../frame/admin-input.ts'
import type { HttpContext } from '../../frame/context.ts'
import { bunFileRoute } from '../../frame/credential.ts'
import { asks, limitOf } from '../../frame/query.ts'
import { reads } from '../../frame/reads.ts'
import { describe } from '../../frame/route-table.ts'
import { admin } from '../../plugins/admin.ts'
import { enrollLine } from '../../views/enroll-line.ts'
import { enrollmentTokenView } from '../../views/enrollment.ts'
import { agentFileRoute } from '../node-agent/agent-file.ts'

const tags = ['Nodes (extension)']
const path = '/v1/admin/enrollment-tokens'
const listQuery = { limit: limitOf(100, 1_000) }

/** Enrolment tokens (§22, §23). The raw token stands in the answer that made it and nowhere else. */
export const enrollmentTokenRoutes = (context: HttpContext) => {
  const { gateway } = context
  return new Elysia()
    .use(admin(context))
    .post(
      path,
      async ({ body: { body, audit }, status }) => {
        const [{ sha256 }, bun] = await Promise.all([gateway.agentBundle.file(), ownBun()])
        const { record, token } = await gateway.enrollment.issue(
          {
            customerId: body.customer_id,
            name: body.name,
            visibility: body.visibility,
            nodeClass: body.node_class,
            privacyClass: body.privacy_class,
            endpointUrlAllowed: body.endpoint_url_allowed ?? false,
          },
          audit,
        )
        const gatewayUrl = gateway.baseUrl()
        const line = {
          enrollment_token: token,
          gateway_url: gatewayUrl,
          agent: { url: gatewayUrl + agentFileRoute, sha256 },
          bun: bun && { url: gatewayUrl + bunFileRoute, sha256: bun.sha256, platform: bun.platform },
        }
        return status(201, { ...enrollmentTokenView(record, Date.now()), ...line, line: enrollLine(line) })
      },
      {
        action: 'node.enroll',
        response: { 201: EnrollmentTokenIssued },
        ...reads(EnrollmentTokenCreate),
        detail: describe({ summary: 'Make a token that lets one node enrol', tags }),
      },
    )
    .get(
      path,
      async ({ query: { limit } }) => {
        const now = Date.now()
        const tokens = (await gateway.enrollment.tokens(limit)).map((record) => enrollmentTokenView(record, now))
        return {
          object: `${brand}.admin.enrollment_token_list` as const,
          generated_at: isoTime(now),
          count: tokens.length,
          enrollment_tokens: tokens,
        }
      },
      {
        action: 'node.enroll.list',
        response: { 200: EnrollmentTokenList },
        ...asks(listQuery),
        detail: describe({ summary: 'List enrolment tokens, including used and expired ones', tags }),
      },
    )
    .delete(
      `${path}/:token_id`,
      async ({ call, params, set }) => {
        await gateway.enrollment.withdraw(params.token_id, call.bare())
        set.status = 204
      },
      {
        action: 'node.enroll.withdraw',
        params: enrollmentTokenParams,
        detail: describe({ summary: 'Withdraw an enrolment token', tags, empty: true }),
      },
    )
}
