import { toOpenAPISchema } from '@elysiajs/openapi/openapi'
import { OptionalKind } from '@sinclair/typebox'
import type { AnyElysia } from 'elysia'
import { basePaths } from '../../actors/operations/registry.ts'
import { chatRoute } from '../../actors/telemetry/metrics.ts'
import { headers, productTitle } from '../../brand.ts'
import { errorsPath } from '../../errors.ts'
import { type AdminRoute, needsSecondApprover } from '../../machines/rules/admin-route.ts'
import { ChatChunk, ChatCompletion } from '../../protocol/wire/inference/chat.ts'
import type { QueryParameters } from '../../protocol/wire/query.ts'
import { reasonHeader } from '../frame/admin-input.ts'
import { describedQuery, queryKey } from '../frame/query.ts'
import { bodyKey, type DescribedBody, describedBody } from '../frame/reads.ts'
import { actionKey, bracedPath, csvKey, etagKey, mediaTypeKey } from '../frame/route-table.ts'
import { chatOperation } from './chat-operation.ts'
import { DescribedChatRequest } from './chat-request.ts'
import { describedAt } from './described-request.ts'
import { inDialect } from './dialect-samples.ts'
import { errorResponse, errorSchemas } from './errors.ts'
import { preconditionParameters, refusedPrecondition, withEtag } from './etags.ts'
import { documentedPath, restParameters } from './rest-of-path.ts'
import { sampleOf, sampleOfMedia } from './samples.ts'
import { type JsonObject, openApiSchema, plain } from './schema.ts'

const openApiVersion = '3.1.0'
/** Of the interface; the program's own version is no business of a stranger. */
const interfaceVersion = '1'

/** By the names under which "Authorize" asks for them. */
const securitySchemes = {
  GatewayKey: { type: 'http', scheme: 'bearer', description: 'A gateway key (`svc_gateway_…`)' },
  RoleTokenAsBearer: {
    type: 'http',
    scheme: 'bearer',
    description: 'A role token (`svc_admin_…`, `svc_operator_…`, `svc_viewer_…`)',
  },
  RoleToken: { type: 'apiKey', in: 'header', name: headers.adminToken, description: 'A role token' },
  CustomerId: { type: 'apiKey', in: 'header', name: headers.customerId, description: 'The customer (`cus_…`)' },
  NodeId: { type: 'apiKey', in: 'header', name: headers.nodeId, description: 'The signature of a node' },
  NodeTimestamp: { type: 'apiKey', in: 'header', name: headers.nodeTimestamp, description: 'When the node signed' },
  NodeNonce: { type: 'apiKey', in: 'header', name: headers.nodeNonce, description: 'Used once' },
  NodeSignature: { type: 'apiKey', in: 'header', name: headers.nodeSignature, description: 'Ed25519' },
  CustomerToken: {
    type: 'apiKey',
    in: 'header',
    name: headers.customerToken,
    description: 'The customer token (`svc_customer_…`)',
  },
}

const tags = [
  { name: 'Inference', description: 'Chat and models in the form that OpenAI clients know' },
  { name: 'Inference (extension)', description: 'Beyond the specification: other kinds of inference' },
  {
    name: 'Sealed inference (extension)',
    description: 'Beyond the specification: requests that are encrypted for one of your own nodes, answered at once',
  },
  {
    name: 'Private jobs',
    description:
      'Requests that are encrypted for one of your own nodes. The gateway passes them on and cannot read them.',
  },
  { name: 'Service', description: 'Which models and endpoints this gateway has' },
  { name: 'Billing', description: 'Your prepaid account and its ledger' },
  { name: 'Settlement', description: 'Receipts, payouts and their settlement on a blockchain' },
  { name: 'Money (extension)', description: 'Beyond the specification: proofs, payout batches, held receipts' },
  { name: 'Public log (extension)', description: 'Beyond the specification: what everybody can check of this gateway' },
  { name: 'Audit', description: 'What administrators did, and how long the gateway keeps these events' },
  { name: 'Audit (extension)', description: 'Beyond the specification: proofs over the audit' },
  { name: 'Customers (extension)', description: 'Beyond the specification: accounts' },
  {
    name: 'Administrators (extension)',
    description: 'Beyond the specification: role tokens that bear names, and sessions of the console',
  },
  { name: 'Gateway keys (extension)', description: 'Beyond the specification: keys of an account' },
  { name: 'Nodes (extension)', description: 'Beyond the specification: nodes, and why the gateway chose one' },
  {
    name: 'Statecharts (extension)',
    description: 'Beyond the specification: the gateway’s statecharts and their transitions, for the console',
  },
  { name: 'Node agents (extension)', description: 'Beyond the specification: the routes that node agents call' },
  { name: 'Requests (extension)', description: 'Beyond the specification: what became of each request' },
  { name: 'Model catalogue (extension)', description: 'Beyond the specification: aliases, names, lengths, prices' },
  { name: 'Private jobs (extension)', description: 'Beyond the specification: keys of nodes, commands, webhooks' },
  { name: 'Extensions', description: 'Beyond the specification: health, metrics, discovery' },
]

const statusTexts: Readonly<Record<string, string>> = {
  200: 'Done',
  304: 'Not modified',
  201: 'Created',
  202: 'Accepted',
  204: 'Done. The answer has no body.',
  503: 'Not ready',
}

function queryParameters(parameters: QueryParameters): JsonObject[] {
  return Object.entries(parameters).map(([name, parameter]) => {
    const { description, ...schema } = parameter
    return {
      name,
      in: 'query',
      required: parameter.type !== 'integer' && !(OptionalKind in parameter),
      description,
      schema,
    }
  })
}

const reasonParameter = {
  name: reasonHeader,
  in: 'header',
  required: false,
  schema: { type: 'string', maxLength: 500 },
  description: 'The reason, for the audit. It may also be `reason` in the body.',
}

const approverParameter = {
  name: headers.approverToken,
  in: 'header',
  required: false,
  schema: { type: 'string' },
  description: 'The token of a second admin, if the gateway requires one',
}

/** The plugin declares everything with a schema as JSON, and leaves out answers without one. */
function withMediaType(answer: JsonObject, mediaType: unknown): JsonObject {
  if (mediaType === undefined) return answer
  const json = (answer.content as JsonObject | undefined)?.['application/json']
  return { ...answer, content: { [String(mediaType)]: json ?? { schema: { type: 'string' } } } }
}

/** The other form of a report: the plugin knows the one with a schema alone. */
function withTable(answer: JsonObject, csv: unknown): JsonObject {
  if (csv === undefined) return answer
  const table = { 'text/csv': { schema: { type: 'string', description: csv } } }
  return { ...answer, content: { ...(answer.content as JsonObject | undefined), ...table } }
}

/** Each with an example, which stands first in "Try it out". */
function withSamples(content: Readonly<Record<string, JsonObject>>): JsonObject {
  return Object.fromEntries(
    Object.entries(content).map(([type, media]) => [
      type,
      'example' in media || 'examples' in media
        ? media
        : { ...media, example: sampleOfMedia(type, plain(media) as JsonObject) },
    ]),
  )
}

const sampled = (answer: JsonObject): JsonObject =>
  answer.content === undefined
    ? answer
    : { ...answer, content: withSamples(answer.content as Readonly<Record<string, JsonObject>>) }

/** The meaning of each parameter of a path. */
const pathTexts: Readonly<Record<string, string>> = {
  admin_id: 'The named role token (`adm_…`), not the token itself',
  session_id: 'The session (`ses_…`), not its token',
  batch_id: 'The payout batch (`bat_…`)',
  node_id: 'The node (`node_…`)',
  receipt_hash: 'The hash of the receipt',
  customer_id: 'The customer (`cus_…`)',
  key_id: 'The key (`key_…`), not the key itself',
  token_id: 'The enrolment token (`enr_…`), not the token itself',
  join_id: 'The join (`join_…`)',
  pull_id: 'The pull (`pull_…`)',
  file: 'The place of the file in the list, from 0',
  request_id: 'The request (`req_…`), as the header `x-request-id` says it',
  machine: 'The statechart, such as `node` or `mixture`',
  job_id: 'The job, as its customer named it',
  command_id: 'The command (`cmd_…`)',
  webhook_id: 'The event (`msg_…`)',
  rest: 'The rest of the path',
}

function explained(parameter: JsonObject): JsonObject {
  const { name, description, schema } = parameter as { name: string; description?: string; schema?: JsonObject }
  const sample = parameter.in === 'path' && schema !== undefined ? { example: sampleOf(schema, name) } : {}
  return { ...parameter, ...sample, description: description ?? pathTexts[name] }
}

interface RouteInputs {
  readonly body: DescribedBody | null
  readonly query: QueryParameters
}

/** The plugin's description of a route, completed by the route's own under our keys. */
function finished(path: string, method: string, operation: JsonObject, { body, query }: RouteInputs): JsonObject {
  const {
    [actionKey]: action,
    [csvKey]: csv,
    [mediaTypeKey]: mediaType,
    [etagKey]: etag,
    [bodyKey]: _body,
    [queryKey]: _query,
    parameters,
    responses,
    requestBody: _,
    ...rest
  } = operation
  const row = (action ?? null) as AdminRoute | null
  const all = [
    ...((parameters as JsonObject[] | undefined) ?? []),
    ...restParameters(path),
    ...queryParameters(query),
    ...preconditionParameters(etag, method),
    ...(row === null || method === 'get' ? [] : [reasonParameter]),
    ...(row !== null && needsSecondApprover(row) ? [approverParameter] : []),
  ]
  const answers = Object.entries((responses as Record<string, JsonObject> | undefined) ?? { 200: {} })
  return {
    ...rest,
    ...(row === null
      ? {}
      : { description: `${rest.description ?? ''} Least role: ${row.role}. Action: \`${row.action}\`.`.trim() }),
    ...(all.length === 0 ? {} : { parameters: all.map(explained) }),
    ...(body === null
      ? {}
      : {
          requestBody: {
            required: body.required,
            content: withSamples({
              [body.mediaType ?? 'application/json']: { schema: openApiSchema(describedAt(path, body.schema)) },
            }),
          },
        }),
    responses: {
      ...Object.fromEntries(
        answers.map(([status, answer]) => [
          status,
          {
            ...withEtag(sampled(withTable(withMediaType(inDialect(path, answer), mediaType), csv)), etag),
            description: statusTexts[status] ?? status,
          },
        ]),
      ),
      ...refusedPrecondition(etag, method),
      default: errorResponse(path),
    },
  }
}

const [canonicalBase, ...otherBases] = basePaths
const pointerTo = (path: string) => `#/paths/${path.replaceAll('~', '~0').replaceAll('/', '~1')}`

/** What stands below several base URLs is described once: below the others it is a reference to the canonical path (§35). */
function otherPaths(app: AnyElysia, described: ReadonlySet<string>): readonly (readonly [string, JsonObject])[] {
  const mounted = new Set(app.routes.map(({ path }) => bracedPath(path)))
  return [...described]
    .filter((path) => path.startsWith(`${canonicalBase}/`))
    .flatMap((path) => otherBases.map((base) => [base + path.slice(canonicalBase.length), path] as const))
    .filter(([other]) => mounted.has(other) && !described.has(other))
    .map(([other, path]) => [other, { $ref: pointerTo(path) }] as const)
}

/** The description of everything that is mounted: valid OpenAPI 3.1 (§9; checked in a test). */
export function openApiDocument(app: AnyElysia, baseUrl: string): JsonObject {
  const { paths } = toOpenAPISchema(app, { staticFile: false }, undefined, undefined, openApiVersion)
  const asked = new Map(
    app.routes.map(({ method, path, hooks }) => [
      `${method.toLowerCase()} ${bracedPath(path)}`,
      { body: describedBody(hooks), query: describedQuery(hooks) },
    ]),
  )
  const described = Object.entries(paths as Record<string, Record<string, JsonObject>>).map(([path, operations]) => [
    documentedPath(path),
    Object.fromEntries(
      Object.entries(operations).map(([method, operation]) => [
        method,
        path === chatRoute
          ? chatOperation
          : finished(path, method, operation, asked.get(`${method} ${path}`) ?? { body: null, query: {} }),
      ]),
    ),
  ])
  return plain({
    openapi: openApiVersion,
    info: {
      title: productTitle,
      version: interfaceVersion,
      description: `One OpenAI-compatible door to all the nodes you own. Every response carries \`${headers.requestId}\`, and every error a \`help_url\`: [all error codes](${errorsPath}). Tags marked as extension are not part of the specification.`,
      license: { name: 'Apache-2.0', identifier: 'Apache-2.0' },
    },
    servers: [{ url: baseUrl }],
    tags,
    paths: Object.fromEntries([...described, ...otherPaths(app, new Set(described.map(([path]) => String(path))))]),
    components: {
      securitySchemes,
      schemas: {
        ChatRequest: openApiSchema(DescribedChatRequest),
        ChatCompletion: openApiSchema(ChatCompletion),
        ChatChunk: openApiSchema(ChatChunk),
        ...errorSchemas,
      },
    },
  }) as JsonObject
}
