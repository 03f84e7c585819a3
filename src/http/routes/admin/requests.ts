import { helpUrl, isProblemCode, Problem, problemKind } from '../../../errors.ts'
import { RequestStory } from '../../../protocol/wire/admin/requests.ts'
import { errorHelp } from '../../docs/errors-page.ts'
import { report } from '../../reports/report.ts'
import { explanationOf, knownOf } from '../../views/own.ts'
import { requestOf } from '../../views/own-requests.ts'
import { requestStoryView } from '../../views/requests.ts'

const idPattern = /^req_[0-9A-Z]{26}$/

/** As the page of errors has it. `base`: where the gateway serves that page. */
function causeOf(code: string | null, base: string): RequestStory['cause'] {
  if (code === null || !isProblemCode(code)) return null
  return { title: problemKind(code).title, ...errorHelp[code], help_url: helpUrl(base, code) }
}

/** One request with its story (§32). */
export const requestRead = report({
  action: 'request.read',
  tag: 'Requests (extension)',
  summary: 'Read one request with its story',
  description:
    'Its row, the calls of nodes in their order, and why each node was chosen (of the last 10 000 requests of each process of the gateway that is asked).',
  query: {},
  response: RequestStory,
  read: async ({ gateway }, { params: { request_id: id = '' }, role, nowMs }) => {
    if (!idPattern.test(id)) throw new Problem('request_not_found')
    const row = knownOf(await requestOf(gateway, id))
    const cause = causeOf(row.code, gateway.baseUrl())
    const { found: explanation } = await explanationOf(gateway, id, role)
    return requestStoryView(row, cause, explanation, role, nowMs)
  },
})
