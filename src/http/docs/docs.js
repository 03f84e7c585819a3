/* The address bar may name this gateway otherwise than SVC_PUBLIC_URL does; requests go where the page came from, which
   is also all that its content security policy allows. A key that was entered lives in this page alone. */
const response = await fetch('/openapi.json')
const spec = await response.json()
spec.servers = [{ url: location.origin }]
window.SwaggerUIBundle({
  spec,
  dom_id: '#docs',
  deepLinking: true,
  docExpansion: 'list',
  defaultModelsExpandDepth: 0,
  persistAuthorization: false,
  tryItOutEnabled: true,
  validatorUrl: null,
})
