import { adminRoute } from '../../../src/actions/registry.ts'
import type { AuditContext, AuditTrail } from '../../../src/actors/audit/audit-context.ts'
import { AuditLog } from '../../../src/actors/audit/audit-log.ts'
import type { Database } from '../../../src/db/client.ts'
import { createLog } from '../../../src/log.ts'

/** On the word of an admin, for verbs whose events are not what a test is about. */
export const testAudit: AuditContext = {
  action: 'customer.update',
  actorType: 'admin_token',
  actorRole: 'admin',
  actorHashPrefix: '0123456789ab',
  approverHashPrefix: null,
  reason: 'a test',
  confirmation: null,
  requestId: null,
}

export function testTrail(db: Database): AuditTrail {
  return new AuditLog({
    db,
    log: createLog('silent', () => {}),
    keys: ['audit-key-of-the-tests'],
    policyOf: adminRoute,
  })
}
