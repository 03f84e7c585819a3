import type { EnrollmentTokenRecord } from '../../actors/agents/enrollment.ts'
import { ownBun } from '../../actors/agents/own-bun.ts'
import type { GatewayHandle } from '../../actors/gateway-handle.ts'
import type { EnrollmentToken } from '../../protocol/wire/nodes/enrollment.ts'
import { isoTime } from '../../time.ts'
import { agentFileRoute, bunFileRoute } from '../frame/credential.ts'
import { enrollLine, powershellLine } from './enroll-line.ts'

function stateOf({ usedAt, expiresAt }: EnrollmentTokenRecord, nowMs: number): EnrollmentToken['state'] {
  if (usedAt !== null) return 'used'
  return expiresAt.getTime() <= nowMs ? 'expired' : 'open'
}

/** `nowMs`: Unix ms. */
export function enrollmentTokenView(row: EnrollmentTokenRecord, nowMs: number): EnrollmentToken {
  return {
    token_id: row.tokenId,
    customer_id: row.customerId,
    name: row.name,
    display_prefix: row.displayPrefix,
    visibility: row.visibility,
    node_class: row.nodeClass,
    privacy_class: row.privacyClass,
    endpoint_url_allowed: row.endpointUrlAllowed,
    state: stateOf(row, nowMs),
    created_at: isoTime(row.createdAt),
    expires_at: isoTime(row.expiresAt),
    used_at: row.usedAt === null ? null : isoTime(row.usedAt),
    node_id: row.usedBy,
  }
}

/** What a computer that becomes a node fetches from this gateway. */
export async function agentFiles({ agentBundle, baseUrl }: Pick<GatewayHandle, 'agentBundle' | 'baseUrl'>) {
  const [{ sha256 }, bun] = await Promise.all([agentBundle.file(), ownBun()])
  const url = baseUrl()
  return {
    gateway_url: url,
    agent: { url: url + agentFileRoute, sha256 },
    bun: bun && { url: url + bunFileRoute, sha256: bun.sha256, platform: bun.platform },
  }
}

/** With the raw token, and the line to paste. */
export function issuedTokenView(
  { record, token }: { readonly record: EnrollmentTokenRecord; readonly token: string },
  files: Awaited<ReturnType<typeof agentFiles>>,
) {
  const line = { enrollment_token: token, ...files }
  return {
    ...enrollmentTokenView(record, Date.now()),
    ...line,
    line: enrollLine(line),
    powershell_line: powershellLine(line),
  }
}
