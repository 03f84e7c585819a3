import { contents } from './leak-markers.ts'

const { prompt, adminField, adminValue } = contents
const short = prompt.slice(0, 64)

/** Chat bodies that are refused, each for a reason of its own. */
export const refusedBodies: readonly object[] = [
  { model: 'unknown' },
  { messages: prompt },
  { messages: [{ role: prompt, content: prompt }] },
  { temperature: prompt },
  { stream_options: prompt },
  { n: 2 },
  { envelope: prompt },
  { node_url: `http://${prompt}` },
  { svc: prompt },
  { svc: { node_id: short } },
  { svc: { job_id: `${prompt} x` } },
  { svc: { model_profile_id: short } },
  { svc: { dispatch_mode: prompt } },
  { svc: { mixture: { strategy: prompt } } },
]

type AdminFault = readonly [method: string, path: string, body: object]

/** Admin calls that are refused. `path`: of a customer; `nodeBody`: a body that would be taken, with other fields. */
export function adminFaults(path: string, nodeBody: (more: object) => object): readonly AdminFault[] {
  return [
    ['POST', '/v1/admin/customers', { display_name: 'x', [adminField]: adminValue }],
    ['POST', '/v1/admin/customers', { display_name: [adminValue] }],
    ['PATCH', path, { account_status: adminValue }],
    ['PATCH', path, { gateway_policy: { min_privacy_class: adminValue } }],
    ['POST', `${path}/keys`, { name: 'x', expires_at: adminValue }],
    ['POST', '/v1/admin/nodes', nodeBody({ url: `ftp://${adminValue}` })],
    ['POST', '/v1/admin/nodes', nodeBody({ url: `http://user:${adminValue}@127.0.0.1` })],
    ['POST', '/v1/admin/nodes', nodeBody({ url: `http://127.0.0.1/?${adminValue}` })],
    ['POST', '/v1/admin/nodes', nodeBody({ api_key: `${adminValue} ` })],
    ['POST', '/v1/admin/nodes', nodeBody({ customer_id: adminValue.slice(0, 64) })],
    ['PUT', '/v1/admin/models', { id: `-${adminValue}` }],
  ]
}
