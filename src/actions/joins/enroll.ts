import { EnrollmentTokenCreate, EnrollmentTokenIssued } from '../../protocol/wire/nodes/enrollment.ts'
import { defineAction } from '../frame/define-action.ts'
import { camelMembers } from '../frame/members.ts'
import { tag } from '../nodes/node.ts'

/** The raw token stands in this answer and nowhere else (§22, §23). */
export const enrollNode = defineAction({
  name: 'node.enroll',
  at: 'POST /v1/admin/enrollment-tokens',
  policy: { role: 'operator', category: 'node_control', target: 'enrollment_token' },
  summary: 'Make a token that lets one node enrol',
  tag,
  body: EnrollmentTokenCreate,
  result: EnrollmentTokenIssued,
  statuses: [201],
  run: async ({ gateway, views, audit, body: { reason: _, endpoint_url_allowed: allowed = false, ...node } }) => {
    const files = await views.agentFiles(gateway)
    const issued = await gateway.enrollment.issue({ ...camelMembers(node), endpointUrlAllowed: allowed }, audit)
    return views.issuedTokenView(issued, files)
  },
})
