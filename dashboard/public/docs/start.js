// Shows the API with Swagger UI. In a file of its own, because the page's policy allows no script inside a document.
SwaggerUIBundle({
  url: "/openapi.json",
  dom_id: "#swagger-ui",
  layout: "BaseLayout",
  deepLinking: true,
  showExtensions: true,
  showCommonExtensions: true,
  validatorUrl: null, // no request to the validator of swagger.io
});
